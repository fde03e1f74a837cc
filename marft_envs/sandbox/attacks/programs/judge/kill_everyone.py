"""Signal every process there is (with a signal that does no harm)."""
import os
import signal

for target in (-1, 0 - os.getppid(), os.getppid(), 1):
    try:
        os.kill(target, signal.SIGCONT)
        print("REACHED", target)
    except OSError:
        pass
for process in range(2, 400):
    if process != os.getpid():
        try:
            os.kill(process, signal.SIGCONT)
            print("REACHED", process)
        except OSError:
            pass
print("contained")
