"""Close stdin, stdout, stderr and everything else, then go on."""
import os

for number in range(1024):
    try:
        os.close(number)
    except OSError:
        pass
try:
    first = os.open("/dev/null", os.O_RDWR)
    os.write(first, b"REACHED nothing")
except OSError:
    pass
os._exit(0)
