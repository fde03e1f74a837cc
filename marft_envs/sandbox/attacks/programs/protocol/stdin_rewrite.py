"""Write into stdin, by every way in: the next test must not read it."""
import os

text = os.read(0, 1 << 20)
if b"marft_left" in text:
    print("REACHED what the last test wrote into stdin")
for path in ("/proc/self/fd/0", "/dev/stdin", "/dev/fd/0", None):
    try:
        file = 0 if path is None else os.open(path, os.O_RDWR)
        os.pwrite(file, b"marft_left" * 10, 0)
        os.pwrite(file, b"marft_left" * 10, len(text))
        os.ftruncate(file, 0)
        os.fchmod(file, 0o777)
    except OSError:
        pass
print("contained")
