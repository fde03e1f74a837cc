"""Use up the inodes: files, folders, fifos and links by the thousand."""
import os
import sys

for folder in ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run", "/box", ".", os.path.dirname(os.path.abspath(sys.orig_argv[-1]))):
    for make in (os.mkdir, os.mkfifo, lambda path: os.symlink("/", path), lambda path: os.close(os.open(path, os.O_CREAT))):
        try:
            for number in range(20_000):
                make(f"{folder}/marft_left{number}")
        except OSError:
            pass
        else:
            print("REACHED 20000 inodes in", folder)
print("contained")
