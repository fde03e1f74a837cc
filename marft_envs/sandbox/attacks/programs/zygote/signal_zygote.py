"""Signal, query or slow down the zygote that this process was forked from: its id is a little below ours."""
import ctypes
import fcntl
import os
import resource
import signal

libc = ctypes.CDLL(None)
own = os.getpid()
try:
    os.kill(0, signal.SIGCONT)  # our group, if it is still that of the zygote
    print("REACHED the group of the zygote")
except OSError:
    pass
for process in (*range(max(2, own - 64), own), os.getppid(), -os.getpgrp(), -1):
    for act in (
        lambda: os.kill(process, signal.SIGCONT),
        lambda: os.killpg(process, signal.SIGCONT),
        lambda: libc.tgkill(process, process, signal.SIGCONT) == 0 or os.stat(""),
        lambda: libc.sigqueue(process, signal.SIGCONT, 0) == 0 or os.stat(""),
        lambda: signal.pidfd_send_signal(os.pidfd_open(process), signal.SIGCONT),
        lambda: fcntl.fcntl(0, fcntl.F_SETOWN, process),
        lambda: os.setpgid(0, process),
        lambda: os.getsid(process),
        lambda: os.getpgid(process),
        lambda: os.setpriority(os.PRIO_PROCESS, process, 19),
        lambda: os.sched_setaffinity(process, {0}),
        lambda: os.sched_getaffinity(process),
        lambda: os.sched_setscheduler(process, os.SCHED_IDLE, os.sched_param(0)),
        lambda: resource.prlimit(process, resource.RLIMIT_NOFILE),
        lambda: resource.prlimit(process, resource.RLIMIT_CPU, (1, 1)),
        lambda: os.waitpid(process, os.WNOHANG),
        lambda: os.readlink(f"/proc/{process}/exe"),
        lambda: open(f"/proc/{process}/mem", "rb"),
        lambda: open(f"/proc/{process}/oom_score_adj", "w"),
    ):
        try:
            act()
            print("REACHED", process, act.__code__.co_names)
        except (OSError, AttributeError, OverflowError):
            pass
print("contained")
