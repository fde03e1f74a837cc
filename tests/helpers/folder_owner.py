"""Own a results folder in a process of its own, until standard input closes: `python folder_owner.py FOLDER [MACHINE]`.

With the argument `--with-children` a fork and a program that it started outlive it; their process ids are printed.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from marft_agents.runs.folder_lock import owned


@contextlib.contextmanager
def owner(folder, *arguments):
    """Start a process that owns a folder; yield it, with the ids of its children, and kill it at the end."""
    command = [sys.executable, __file__, str(folder), *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            _, *process.children = process.stdout.readline().split()
            yield process
        finally:
            process.kill()


def main(folder, *arguments):
    children = []
    machines = [argument for argument in arguments if argument != "--with-children"]
    if machines:
        socket.gethostname = lambda: machines[0]
    with owned(Path(folder)):
        if "--with-children" in arguments:
            quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
            children.append(subprocess.Popen(["sleep", "60"], **quiet).pid)
            ready, tell = os.pipe()
            if fork := os.fork():
                children.append(fork)
                os.read(ready, 1)  # until the fork has let go of the lock, which it does before anything else
            else:
                os.dup2(os.open(os.devnull, os.O_RDWR), 1)
                os.write(tell, b".")
                time.sleep(60)
                os._exit(0)
        print("owned", *children, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
