"""Read a file so that its date of last reading changes, which a later program would see."""
import os

folder = os.path.dirname(os.__file__)
for name in sorted(os.listdir(folder)):
    path = os.path.join(folder, name)
    try:
        before = os.stat(path).st_atime_ns
        if os.path.isdir(path):
            os.listdir(path)
        else:
            with open(path, "rb") as file:
                file.read(1)
        if os.stat(path).st_atime_ns != before:
            print("REACHED", path)
    except OSError:
        pass
print("contained")
