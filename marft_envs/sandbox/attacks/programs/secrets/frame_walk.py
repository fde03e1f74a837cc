"""Walk stack frames, modules and the garbage collector for the expected output."""
import gc
import re
import sys

mark = re.compile("MARFT_" + "SECRET" + "_[a-z]+[0-9a-f]{16}")
seen = [sys.modules, vars(sys.modules["__main__"]), sys._current_frames()]
frame = sys._getframe()
while frame:
    seen += [frame.f_locals, frame.f_globals]
    frame = frame.f_back
for thing in gc.get_objects() + seen:
    values = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, (list, tuple, set)) else ()
    for value in list(values):
        if isinstance(value, (str, bytes)):
            text = value if isinstance(value, str) else value.decode("latin-1")
            if mark.search(text):
                print("REACHED", text[:100])
print("contained")
