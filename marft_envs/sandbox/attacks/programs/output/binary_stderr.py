"""Dies with an error text that is no text."""
import os

os.write(2, bytes(range(128, 256)) * 64)
os.write(1, b"\xc3\x28")
os._exit(77)
