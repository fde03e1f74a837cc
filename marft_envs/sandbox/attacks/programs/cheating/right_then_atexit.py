"""The right answer, and an exit handler that dies."""
import atexit
import os

number = int(input())
print(number * number + 1, flush=True)
atexit.register(os._exit, 3)
