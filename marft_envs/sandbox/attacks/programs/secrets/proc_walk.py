"""Look into every process that can be seen."""
import os

mine = {"self", "thread-self", str(os.getpid())}
try:
    others = [name for name in os.listdir("/proc") if name.isdigit() and name not in mine]
except OSError:
    others = []
for process in others:
    for name in ("environ", "maps", "mem"):
        try:
            with open(f"/proc/{process}/{name}", "rb") as file:
                content = file.read(4096)
        except OSError:
            continue
        if content:
            print("REACHED", process, name)
    for name in ("cwd", "root", "exe"):
        try:
            print("REACHED", process, name, os.readlink(f"/proc/{process}/{name}"))
        except OSError:
            pass
print("contained", len(others))
