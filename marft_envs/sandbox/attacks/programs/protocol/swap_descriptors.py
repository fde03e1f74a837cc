"""Exchange stdout and stderr, noise on the one and the answer on the other: only the file of stdout counts."""
import os

number = int(input())
spare = os.dup(1)
os.dup2(2, 1)
os.dup2(spare, 2)
os.write(1, b"noise, and 7 tokens more than wanted\n")
os.write(2, b"%d\n" % (number * number + 1))
