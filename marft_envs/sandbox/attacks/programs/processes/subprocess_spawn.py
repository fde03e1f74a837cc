"""Start another program in the usual ways."""
import os
import subprocess


def spawn_posix():
    os.waitpid(os.posix_spawn("/bin/true", ["marft_left"], {}), 0)


for way in (lambda: subprocess.run(["/bin/true"], check=True), spawn_posix, lambda: os.forkpty(), lambda: os.popen("true").close()):
    try:
        way()
        print("REACHED a child process")
    except OSError:
        print("contained")
