"""Move, empty, lock up or leave the folder of the program: the next test must find it as it was."""
import os
import sys

number = int(input())
print(number * number + 1, flush=True)
for act in (
    lambda: os.chmod(".", 0),
    lambda: os.rename(".", "../marft_left"),
    lambda: os.rmdir(os.getcwd()),
    lambda: os.rename(sys.orig_argv[-1], "marft_left"),
    lambda: os.unlink(sys.orig_argv[-1]),
    lambda: os.mkdir("marft_left"),
    lambda: os.utime(".", (0, 0)),
    lambda: os.chdir("/"),
):
    try:
        act()
    except OSError:
        pass
