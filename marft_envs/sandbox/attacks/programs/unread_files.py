"""Find a file that may be read and that nothing reads: each page of it that becomes cached is a bit for a later one."""
import os

for folder in ("/usr/include", "/usr/bin", "/usr/sbin", "/usr/share", "/usr/src", "/usr/libexec", "/opt", "/var", "/etc"):
    for place, _, names in os.walk(folder):
        for name in names[:20]:
            path = os.path.join(place, name)
            if path.startswith("/usr/share/zoneinfo/") or os.path.realpath(path) == os.path.realpath("/proc/self/exe"):
                continue
            try:
                with open(path, "rb") as file:
                    if file.read(1):
                        print("REACHED", path)
            except OSError:
                pass
print("contained")
