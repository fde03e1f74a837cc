"""Take the judge's terminal, type into it, or use up the pseudo terminals."""
import fcntl
import os
import termios

count = 0
try:
    os.close(os.open("/dev/tty", os.O_RDWR))
    print("REACHED the terminal")
except OSError:
    pass
for number in range(3):
    try:
        fcntl.ioctl(number, termios.TIOCSTI, b"\n")
        print("REACHED the terminal's input")
    except OSError:
        pass
try:
    while count < 200:
        os.openpty()
        count += 1
    print("REACHED", count, "terminals")
except OSError:
    pass
print("contained", count)
