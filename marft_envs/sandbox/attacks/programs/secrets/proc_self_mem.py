"""Search this process's own memory for what the judge knows (it would be there if runner and program were one)."""
import re

mark = re.compile(("MARFT_" + "SECRET" + "_[a-z]+[0-9a-f]{16}").encode())
found = 0
try:
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
        for line in maps.read().splitlines():
            start, end = (int(word, 16) for word in line.split()[0].split("-"))
            if "r" not in line.split()[1] or "[v" in line or end - start > 2**26:
                continue
            try:
                memory.seek(start)
                content = memory.read(end - start)
            except (OSError, ValueError):
                continue
            found += mark.search(content) is not None
except OSError:
    pass
print("REACHED a secret" if found else "contained")
