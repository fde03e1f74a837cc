"""Remember something from one test for the next: a file, a name, a process title."""
import os
import sys

trail = []
for folder in ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/box", ".", os.path.dirname(os.path.abspath(sys.orig_argv[-1])), "/run"):
    path = f"{folder}/marft_left_state"
    if os.path.lexists(path):
        print("REACHED what the last test left in", folder)
    try:
        with open(path, "w") as file:
            file.write("1")
        os.chmod(path, 0o777)
        trail.append(folder)
    except OSError:
        pass
print("contained", trail)
