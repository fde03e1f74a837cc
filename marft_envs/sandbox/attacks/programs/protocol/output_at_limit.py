"""Output of precisely the limit: not too much, only wrong."""
import os

os.write(1, b"7" * (1 << 20))
