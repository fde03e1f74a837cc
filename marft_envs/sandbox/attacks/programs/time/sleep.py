"""Sleep without end."""
import time

time.sleep(1000)
print("REACHED the morning")
