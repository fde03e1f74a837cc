"""Leave the output in another mode (append, no waiting, far offset): the next test's output must not inherit it."""
import fcntl
import os

number = int(input())
flags = fcntl.fcntl(1, fcntl.F_GETFL)
if flags & (os.O_APPEND | os.O_NONBLOCK | os.O_DIRECT | os.O_NOATIME) or os.lseek(1, 0, os.SEEK_CUR):
    print("REACHED the mode that the last test left:", flags)
os.write(1, b"%d\n" % (number * number + 1))
for mode in (os.O_APPEND, os.O_NONBLOCK, os.O_DIRECT, os.O_NOATIME):
    for descriptor in (0, 1, 2):
        try:
            fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | mode)
        except OSError:
            pass
for descriptor in (0, 1, 2):
    os.lseek(descriptor, 1 << 40, os.SEEK_SET)
