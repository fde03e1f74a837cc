"""Read what is around the contents of the host's files: extended attributes, targets of links, sizes and times."""
import os
import sys

for path in sys.stdin.read().split("\n")[2:-2]:
    try:
        print(path, os.stat(path).st_size, os.stat(path).st_mtime_ns)
    except OSError:
        pass
    for read in (
        lambda: os.readlink(path + ".link"),
        lambda: os.getxattr(path, "user.marft_canary").decode(),
        lambda: os.listxattr(path),
        lambda: os.statvfs(path).f_bfree and None,
    ):
        try:
            print(read())
        except OSError:
            pass
print("contained")
