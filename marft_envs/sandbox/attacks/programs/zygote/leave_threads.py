"""Leave threads, timers and siblings behind, and end at once: the next test must not find or pay for them."""
import ctypes
import os
import signal
import threading
import time

number = int(input())
libc = ctypes.CDLL(None)
if time.process_time() > 0.3 or threading.active_count() > 1 or signal.getitimer(signal.ITIMER_REAL)[0] or signal.sigpending():
    print("REACHED what the last test left")
for flags in (0x8000, 0x8000 | 17, 0x8000 | 0x00200000, 17, 0x100, 0x4100):  # CLONE_PARENT first, as for a zygote
    child = libc.syscall(220 if os.uname().machine == "aarch64" else 56, flags, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    if child > 0:
        print("REACHED a sibling", flags)
print(number * number + 1, flush=True)


def burn():
    while True:
        pass


for _ in range(3):
    threading.Thread(target=burn, daemon=True).start()
signal.signal(signal.SIGALRM, signal.SIG_IGN)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
os._exit(0)
