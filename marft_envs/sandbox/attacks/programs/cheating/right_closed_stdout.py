"""The right answer from a program that closes everything behind itself: this one is right."""
import os

number = int(input())
os.write(1, b"%d   \r\n\n\n" % (number * number + 1))
os.closerange(0, 64)
os._exit(0)
