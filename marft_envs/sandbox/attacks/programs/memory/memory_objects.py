"""Take memory in many small objects."""
hoard = None
for _ in range(200_000_000):
    hoard = [hoard]
print("REACHED 200 million lists")
