"""Read the memory of the runner and of the judge."""
import os
import sys

host = sys.stdin.read().split()[1]
for process in {"1", str(os.getppid()), host}:
    for name in ("maps", "mem", "auxv", "stack", "syscall", "pagemap", "io", "map_files/"):
        path = f"/proc/{process}/{name}"
        try:
            content = os.listdir(path) if name.endswith("/") else open(path, "rb").read(64)
        except OSError:
            continue
        if content:
            print("REACHED", path)
print("contained")
