"""Leave a large input unread."""
print("no")
