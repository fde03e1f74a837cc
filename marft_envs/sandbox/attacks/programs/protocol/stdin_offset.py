"""Leave stdin closed, moved or replaced: the next test must read all of its own."""
import os

text = os.read(0, 1 << 20)
number, turn = int(text.split()[0]), int(text.split()[2])
if turn == 1:
    os.lseek(0, 1 << 40, os.SEEK_SET)
if turn == 2:
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
if turn == 3:
    os.close(0)
os.write(1, b"%d\n" % (number * number + 1))
os._exit(0)
