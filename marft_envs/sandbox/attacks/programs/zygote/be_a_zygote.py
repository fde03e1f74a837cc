"""Load the library of the zygote, where programs can read it, and fork or execute something by it."""
import ctypes
import os
import socket

print("contained", flush=True)
try:
    library = ctypes.CDLL("/marft/libspawn.so")
except OSError:
    os._exit(0)
library.jail_take_pid()
ours, theirs = socket.socketpair()
plan = ctypes.create_string_buffer(b"\xff" * 28 + bytes(200))
if library.jail_fork(ours.fileno(), plan) > 0 or library.jail_start(plan) > 0:
    print("REACHED a fork")
if theirs.fileno() != 3:
    os.dup2(theirs.fileno(), 3)
library.PyInit_zygote()
print("REACHED the other side of the call", flush=True)
