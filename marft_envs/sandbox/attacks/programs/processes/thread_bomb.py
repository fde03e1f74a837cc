"""Start threads until the system refuses; the goal is 500 at once."""
import os
import threading
import time

threading.stack_size(64 * 1024)
gate, count = threading.Event(), 0
try:
    while count < 500:
        threading.Thread(target=gate.wait, daemon=True).start()
        count += 1
    time.sleep(0.25)
    print("REACHED", count, "threads", flush=True)
except (RuntimeError, MemoryError):
    print("contained after", count, flush=True)
os._exit(0)
