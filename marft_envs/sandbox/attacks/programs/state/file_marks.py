"""Leave a mark on files instead of in them: times, modes, attributes, flags; the next test looks for it."""
import fcntl
import os
import struct
import sys

mark = 1234567890
paths = [".", "..", "/", "/tmp", "/dev", "/dev/null", "/usr", "/usr/lib", os.getcwd(), sys.orig_argv[-1], sys.executable, os.__file__, 0, 1, 2]
for path in paths:
    try:
        what = os.stat(path)
        if mark in (int(what.st_mtime), int(what.st_atime)) or os.listxattr(path):
            print("REACHED the mark on", path)
    except OSError:
        pass
    for act in (
        lambda: os.utime(path, (mark, mark)),
        lambda: os.setxattr(path, "user.marft_left", b"1"),
        lambda: os.setxattr(path, "security.capability", b"\1\0\0\2" + b"\xff" * 16),
        lambda: os.setxattr(path, "system.posix_acl_access", b"\2\0\0\0"),
        lambda: fcntl.ioctl(path if isinstance(path, int) else os.open(path, os.O_RDONLY), 0x40086602, struct.pack("l", 0x80)),
    ):
        try:
            act()
            if not isinstance(path, int):
                print("REACHED", path)
        except OSError:
            pass
print("contained")
