"""Read more of stdin than this test's input: the next requests, were it the runner's own pipe."""
import os
import sys

text = sys.stdin.buffer.read()
more = text[text.index(b"end\n") + 4 :]
for path in ("/dev/stdin", "/proc/self/fd/0", "/dev/fd/0"):
    try:
        with open(path, "rb") as again:
            content = again.read()
    except OSError:
        continue
    more += content if content != text else b""
try:
    more += os.pread(0, 65536, len(text))
    os.lseek(0, 0, os.SEEK_SET)
    more += os.read(0, 2**20)[len(text) :]
except OSError:
    pass
print("REACHED" if more else "contained", more[:40])
