"""Change what is around the contents of the host's files: mode, owner, times, attributes, length, name."""
import os
import sys

for path in sys.stdin.read().split("\n")[2:-2]:
    for act in (
        lambda: os.chmod(path, 0o600),
        lambda: os.chown(path, os.getuid(), os.getgid()),
        lambda: os.utime(path, (1, 1)),
        lambda: os.setxattr(path, "user.marft_left", b"1"),
        lambda: os.truncate(path, 1 << 20),
        lambda: os.rename(path, path + "_marft_left"),
        lambda: os.link(path, path + "_marft_left"),
        lambda: os.unlink(path),
        lambda: os.chdir(os.path.dirname(path)) or os.listdir(".").index(os.path.basename(path)),
    ):
        try:
            act()
            print("REACHED a change or a list at", path)
        except (OSError, ValueError):
            pass
print("contained")
