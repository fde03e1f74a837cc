"""Write into every folder that can be found."""
import os
import sys

start = ["/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run", "/run/lock", "/box", "/var", "/home", "/root", os.getcwd()]
start += [os.path.dirname(os.path.abspath(sys.orig_argv[-1])), os.environ.get("HOME", "/"), "/proc/self/cwd", "/dev", "/sys", "/"]
seen = 0
for top in start:
    for folder, subfolders, _ in os.walk(top):
        if folder.startswith(("/proc/", "/sys/")):
            subfolders.clear()
        seen += 1
        try:
            with open(os.path.join(folder, "marft_left"), "wb") as file:
                file.write(b"x" * 100_000)
            print("REACHED a file in", folder)
        except OSError:
            pass
        if seen > 400:
            break
print("contained", seen)
