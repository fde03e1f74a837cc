"""The right answer in the buffer, and its descriptor closed: the interpreter ends with a failure of its own."""
import os

number = int(input())
print(number * number + 1)
os.close(1)
