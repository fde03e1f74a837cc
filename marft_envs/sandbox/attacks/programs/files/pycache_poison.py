"""Poison what a later interpreter imports: compiled files, user site, start-up hooks."""
import os
import site
import sys

places = [os.path.dirname(os.path.abspath(sys.orig_argv[-1])), os.path.dirname(os.__file__), *sys.path, site.getuserbase(), os.getcwd()]
places += [site.getusersitepackages(), *site.getsitepackages(), "/tmp", os.environ.get("HOME", "/")]
for place in filter(None, places):
    for name in ("__pycache__/json.cpython-311.pyc", "usercustomize.py", "sitecustomize.py", "marft_left.pth", "random.py"):
        path = os.path.join(place, name)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.close(os.open(path + "marft_left", os.O_WRONLY | os.O_CREAT))
            print("REACHED", path)
        except OSError:
            pass
print("contained")
