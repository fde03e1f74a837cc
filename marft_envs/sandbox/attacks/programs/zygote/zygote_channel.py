"""Speak to the runner or the zygote over a descriptor that the fork has kept."""
import os
import stat
import struct

for number in range(3, 1200):
    try:
        found = os.fstat(number)
    except OSError:
        continue
    print("REACHED descriptor", number, stat.filemode(found.st_mode))
    for forged in (struct.pack("<iii20s", 0, os.getpid(), 0, b""), struct.pack("<iii20s", 1, os.getpid(), 1, b"tie"), b""):
        try:
            os.write(number, forged)
        except OSError:
            pass
for number in range(3):
    if not stat.S_ISREG(os.fstat(number).st_mode) or os.fstat(number).st_nlink:
        print("REACHED a stream that is no file of the test", number)
print("contained")
