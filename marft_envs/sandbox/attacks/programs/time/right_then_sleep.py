"""The right answer, and no end."""
import time

number = int(input())
print(number * number + 1, flush=True)
time.sleep(1000)
