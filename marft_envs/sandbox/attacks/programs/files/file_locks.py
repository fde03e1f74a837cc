"""Lock and lease files that neighbours need."""
import fcntl
import os
import sys

for path in (sys.executable, os.__file__, os.path.abspath(sys.orig_argv[-1])):
    file = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("REACHED a lock on", path)
    except OSError:
        pass
    try:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        print("REACHED a lease on", path)
    except OSError:
        pass
print("contained")
