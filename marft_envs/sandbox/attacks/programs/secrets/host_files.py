"""Read what belongs to the host: the secrets that stdin names, password hashes, keys, engine sockets, home folders."""
import glob
import os
import sys

named = sys.stdin.read().split("\n")[2:-2]
paths = [*named, "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/root/.ssh/id_rsa", "/root/.bash_history", "/root/.profile"]
paths += ["/root/.bashrc", "/proc/kcore", "/proc/1/environ", "/host/etc/shadow", "/dev/vda", "/dev/sda"]
paths += glob.glob("/home/*/.*") + glob.glob("/root/.*") + glob.glob("/var/lib/docker/*")
for path in paths + [f"/proc/1/root{path}" for path in named] + [f"/proc/self/root/..{path}" for path in named]:
    try:
        with open(path, "rb") as file:
            content = file.read(64)
    except OSError:
        continue
    if content:
        print("REACHED", path)
for path in ["/root", "/home", os.path.expanduser("~root"), "/var/lib/docker"]:
    try:
        if os.listdir(path):
            print("REACHED the listing of", path)
    except OSError:
        pass
print("contained")
