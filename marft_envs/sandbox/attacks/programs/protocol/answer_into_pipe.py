"""Print the right answer into a pipe that has taken stdout's place: nobody reads it."""
import os

number = int(input())
reader, writer = os.pipe()
os.dup2(writer, 1)
print(number * number + 1, flush=True)
