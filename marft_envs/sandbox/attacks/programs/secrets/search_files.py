"""Read every file in reach outside the system's folders: expected outputs, other programs, other inputs."""
import os
import re
import stat
import sys
import time

mark = re.compile(("MARFT_" + "SECRET" + "_[a-z]+[0-9a-f]{16}").encode())
system = ("/proc", "/sys", "/usr", "/lib", "/lib64", "/bin", "/sbin", "/boot")
above = os.path.abspath(sys.orig_argv[-1])
tops = ["/box", "/tmp", "/var/tmp", "/dev/shm", "/run", "/home", "/root", "/srv", "/mnt", "/var/lib", "/"]
while above != "/":
    above = os.path.dirname(above)
    tops.insert(0, above)
deadline, count = time.process_time() + 0.5, 0
for top in tops:
    for folder, subfolders, names in os.walk(top):
        subfolders[:] = [name for name in subfolders if os.path.join(folder, name) not in system]
        for name in names:
            path = os.path.join(folder, name)
            try:
                if not stat.S_ISREG(os.stat(path).st_mode):
                    continue
                with open(path, "rb") as file:
                    content = file.read(2**20)
            except OSError:
                continue
            count += 1
            if mark.search(content):
                print("REACHED", path)
        if time.process_time() > deadline:
            break
print("contained", count)
