"""Take all rights from the output and the input, so that nobody can open them again."""
import os

number = int(input())
print(number * number + 1, flush=True)
for descriptor in (1, 0, 2):
    for change in (lambda one: os.fchown(one, 12345, 12345), lambda one: os.fchmod(one, 0)):
        try:
            change(descriptor)
        except OSError:
            pass
