"""The right answer, then an end by a watchdog thread of the interpreter that writes tracebacks into stdout."""
import faulthandler
import time

number = int(input())
print(number * number + 1, flush=True)
faulthandler.register(10, file=1, all_threads=True)
faulthandler.dump_traceback_later(0.05, repeat=True, file=1, exit=True)
time.sleep(1)
