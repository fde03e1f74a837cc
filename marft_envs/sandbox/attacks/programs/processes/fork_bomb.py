"""Fork without end; every process counts itself."""
import os

count = 0
while count < 100_000:
    os.fork()
    count += 1
    if count >= 8:
        print("REACHED 255 processes", flush=True)
