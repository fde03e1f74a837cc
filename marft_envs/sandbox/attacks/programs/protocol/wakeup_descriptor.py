"""Let the interpreter write each signal's number into stdout, while the answer is printed."""
import os
import signal

number = int(input())
signal.signal(signal.SIGALRM, lambda *_: None)
os.set_blocking(1, False)
signal.set_wakeup_fd(1, warn_on_full_buffer=False)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
signal.pause()
signal.setitimer(signal.ITIMER_REAL, 0)
print(number * number + 1, flush=True)
