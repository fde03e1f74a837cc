"""Change the interpreter's own objects and code in memory: the next fork of the same zygote must not see it."""
import builtins
import ctypes
import os
import sys

number = int(input())
libc, api = ctypes.CDLL(None), ctypes.pythonapi
code = ctypes.cast(api.Py_GetCopyright, ctypes.c_void_p).value
constant = ctypes.c_int.from_address(id(200) + 24)
first = ctypes.string_at(code, 4)
if constant.value != 200 or first == b"mark" or hasattr(builtins, "mark") or "mark" in dir(list) or "mark" in sys.modules:
    print("REACHED what the last test left")
print(number * number + 1)
sys.stdout.flush()
page = code & ~0xFFFF
if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(0x20000), 7) == 0:
    ctypes.memmove(code, b"mark", 4)
constant.value = 7
builtins.mark = sys.modules["mark"] = 1
proxy = list.__dict__
ctypes.cast(id(proxy) + 16, ctypes.POINTER(ctypes.py_object)).contents.value["mark"] = 1
api.PyType_Modified(ctypes.py_object(list))
os._exit(0)
