"""Ignore every signal that can be ignored, then sleep."""
import contextlib
import signal
import time

for number in range(1, signal.NSIG):
    with contextlib.suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_IGN)
while True:
    time.sleep(100)
