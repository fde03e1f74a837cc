"""Open every setting below /proc/sys for writing (nothing is written): what one program writes, the next one reads."""
import os

count = 0
for folder, _, names in os.walk("/proc/sys"):
    for name in names:
        count += 1
        try:
            os.close(os.open(os.path.join(folder, name), os.O_WRONLY))
            print("REACHED", folder, name)
        except OSError:
            pass
print("contained", count)
