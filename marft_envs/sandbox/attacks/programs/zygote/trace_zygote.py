"""Trace the zygote that this process was forked from, or read and write its memory."""
import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
number, turn = int(input()), int(input().split()[1])
room = ctypes.create_string_buffer(64)


class Part(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


part = Part(ctypes.addressof(room), 8)  # a fork has the same addresses
for process in (*range(max(2, os.getpid() - 64), os.getpid()), os.getppid()):
    found = (
        lambda: libc.ptrace(16, process, 0, 0),  # attach
        lambda: libc.ptrace(0x4206, process, 0, 0),  # seize
        lambda: libc.process_vm_readv(process, ctypes.byref(part), 1, ctypes.byref(part), 1, 0),
        lambda: libc.process_vm_writev(process, ctypes.byref(part), 1, ctypes.byref(part), 1, 0),
        lambda: libc.syscall(438, os.open(".", os.O_RDONLY), 3, 0),  # pidfd_getfd
        lambda: libc.syscall(440, process, ctypes.byref(part), 1, 4, 0),  # process_madvise
        lambda: libc.syscall(448, process, 0),  # process_mrelease
    )[turn]()
    if found >= 0:
        print("REACHED", process, turn)
print("contained")
