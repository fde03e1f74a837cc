"""Print what the next program finds in its jail: one line for each process, socket, object, file and writable place."""
import os
import sys
import time

found = []


def lines_of(path: str) -> list[str]:
    try:
        with open(path, errors="replace") as file:
            return file.read().splitlines()[1:]
    except OSError:
        return []


try:
    processes = [name for name in os.listdir("/proc") if name.isdigit() and name != str(os.getpid())]
except OSError:
    processes = []
for process in processes:
    try:
        with open(f"/proc/{process}/comm") as file:
            found.append("process " + file.read().strip())
    except OSError:
        found.append("process")
found += [f"{kind} socket" for kind in ("tcp", "tcp6", "udp", "udp6", "raw", "unix") for _ in lines_of(f"/proc/net/{kind}")]
found += [f"System V {kind}" for kind in ("shm", "sem", "msg") for _ in lines_of(f"/proc/sysvipc/{kind}")]
found += ["key" for line in lines_of("/proc/keys") if "marft_left" in line]
own = os.path.dirname(os.path.abspath(sys.orig_argv[-1]))
around = own if os.path.dirname(own) == "/" else os.path.dirname(own)  # other slots' folders lie there, if anywhere
for top in ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run", "/home", "/root", around):
    for folder, _, names in os.walk(top):
        if os.access(folder, os.W_OK):
            found.append("writable " + folder)
        found += [f"file {folder}/{name}" for name in names if "marft_left" in name or top != around]
time.sleep(0.03)  # so that two of these at once are in two jails
print("\n".join(sorted(found)))
