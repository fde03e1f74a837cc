"""The right answer, and the exit status of a failure."""
import sys

number = int(input())
print(number * number + 1)
sys.exit(1)
