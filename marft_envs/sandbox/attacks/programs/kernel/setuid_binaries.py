"""Gain rights through a setuid program or file capabilities."""
import ctypes
import os

blocked = ctypes.CDLL(None).prctl(39, 0, 0, 0, 0) == 1  # PR_GET_NO_NEW_PRIVS
for name in ("su", "passwd", "mount", "umount", "sudo", "newgrp", "chsh", "ping", "fusermount3", "pkexec"):
    for folder in ("/bin", "/usr/bin", "/sbin", "/usr/sbin"):
        try:
            status = os.stat(f"{folder}/{name}")
        except OSError:
            continue
        if status.st_mode & 0o6000 and not blocked and os.access(f"{folder}/{name}", os.X_OK):
            print("REACHED", name)
print("contained" if blocked else "REACHED new privileges")
