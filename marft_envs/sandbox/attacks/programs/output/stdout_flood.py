"""Print without end."""
import os

line = b"0123456789abcdef" * 4096
while True:
    os.write(1, line)
