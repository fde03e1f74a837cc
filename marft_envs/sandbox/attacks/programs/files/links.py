"""Plant symbolic and hard links where the judge might follow them."""
import os
import sys

targets = ["/etc/shadow", "/etc/passwd", sys.executable, os.path.abspath(sys.orig_argv[-1]), "/proc/1/environ", "/"]
for folder in ("/tmp", "/var/tmp", "/dev/shm", "/box", "/box/build", ".", os.path.dirname(os.path.abspath(sys.orig_argv[-1]))):
    for target in targets:
        for make in (os.symlink, os.link):
            try:
                make(target, f"{folder}/marft_left_link")
                print("REACHED a link in", folder)
                os.unlink(f"{folder}/marft_left_link")
            except OSError:
                pass
print("contained")
