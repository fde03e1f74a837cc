"""Complain without end."""
import sys

while True:
    sys.stderr.write("x" * 65536)
