"""Find a file that may be read and that nothing reads: each page of it that becomes cached is a bit for a later one."""
import os
import sys

READ = ("/usr/share/zoneinfo/", "/etc/localtime", "/etc/ld.so.cache")  # by others before
for folder in ("/usr/include", "/usr/bin", "/usr/sbin", "/usr/share", "/usr/src", "/usr/libexec", "/opt", "/var", "/etc"):
    for place, _, names in os.walk(folder):
        for name in names[:20]:
            path = os.path.join(place, name)
            try:
                if path.startswith(READ) or os.path.samefile(path, sys.executable):
                    continue
                with open(path, "rb") as file:
                    if file.read(1):
                        print("REACHED", path)
            except OSError:
                pass
print("contained")
