"""One byte more than the limit, and an end with success as if that had been well."""
import os

try:
    for _ in range(3):
        os.write(1, b"7" * (1 << 19))
except OSError:
    pass
os._exit(0)
