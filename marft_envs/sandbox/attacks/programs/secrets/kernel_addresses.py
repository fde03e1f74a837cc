"""Learn kernel addresses and messages."""
import os

for path in ("/proc/kallsyms", "/proc/modules", "/proc/kmsg", "/dev/kmsg", "/proc/slabinfo", "/proc/vmallocinfo", "/proc/timer_list"):
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        content = os.read(descriptor, 4096)
    except OSError:
        continue
    if not content:
        continue
    if path == "/proc/kallsyms" and not content[:16].strip(b"0"):
        continue
    if path == "/proc/modules" and b"0xffff" not in content:
        continue
    print("REACHED", path)
print("contained")
