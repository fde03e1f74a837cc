"""Change its own source, the runner, the interpreter or the library for whoever comes next."""
import os
import sys

mine = os.path.abspath(sys.orig_argv[-1])
here = os.path.dirname(mine)
targets = [mine, sys.executable, os.__file__, "/runner", "/jail/runner.py", "/jail/wire.py", "/etc/passwd", "/etc/ld.so.cache"]
targets += ["/etc/ld.so.preload", "/proc/self/exe", "/usr/bin/g++"]
for path in targets:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
        print("REACHED", path)
    except OSError:
        pass
for act in (
    lambda: os.chmod(mine, 0o777),
    lambda: os.chmod(here, 0o777),
    lambda: os.chown(mine, os.getuid(), os.getgid()),
    lambda: os.rename(mine, mine + "marft_left"),
    lambda: os.unlink(mine),
    lambda: os.rename(here, here + "marft_left"),
    lambda: os.truncate(mine, 0),
    lambda: os.setxattr(mine, "user.marft_left", b"x"),
):
    try:
        act()
        print("REACHED a change of", mine)
    except OSError:
        pass
print("contained")
