"""All byte values, broken UTF-8, nothing a decoder likes."""
import os

os.write(1, bytes(range(256)) * 8 + b"\xff\xfe\xed\xa0\x80\xf8\x88\x80\x80\x80" + b"\0" * 1000)
os.write(2, b"\xff\xfe\x00" * 100)
