"""Daemonise: double fork, a session of its own, and a late write to stdout."""
import ctypes
import os
import time

try:
    first = os.fork()
except OSError:
    print("contained")
    os._exit(0)
if first:
    os.waitpid(first, 0)
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
ctypes.CDLL(None).prctl(15, b"marft_left", 0, 0, 0)
print("REACHED a daemon", flush=True)
time.sleep(20)
