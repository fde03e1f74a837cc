"""Fork a single time: no harm where it works, and then no place for an attack."""
import os

try:
    child = os.fork()
except OSError:
    print("contained")
else:
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    print("REACHED a fork")
