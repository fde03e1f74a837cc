"""System calls: their numbers on x86_64 and aarch64, the lists of those that programs may make, and a way to make one.

The lists are allow-lists. An unlisted call gets EPERM below number 424 and ENOSYS from there on. From 424 on the
numbers are the same everywhere, and a caller of such a new call must expect that a kernel lacks it.
Numbers: asm/unistd_64.h and asm-generic/unistd.h of Linux; a test compares them if the headers are installed.
"""

import ctypes
import functools
import os

FIRST_NEW = 424  # pidfd_send_signal, the first number that all machines share

MACHINES = ("x86_64", "aarch64")

# name, number on x86_64, number on aarch64; - where there is none
_RUN = """
read 0 63, write 1 64, open 2 -, close 3 57, stat 4 -, fstat 5 80, lstat 6 -, poll 7 -, lseek 8 62,
mprotect 10 226, munmap 11 215, brk 12 214, rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139,
pread64 17 67, pwrite64 18 68, readv 19 65, writev 20 66, preadv 295 69, pwritev 296 70, access 21 -, pipe 22 -,
select 23 -, sched_yield 24 124, mremap 25 216, msync 26 227, dup 32 23, dup2 33 -, pause 34 -, nanosleep 35 101,
getitimer 36 102, alarm 37 -, setitimer 38 103, getpid 39 172, sendto 44 206, recvfrom 45 207,
recvmsg 47 212, shutdown 48 210, getsockname 51 204, getpeername 52 205,
execve 59 221, exit 60 93, wait4 61 260, uname 63 160, fsync 74 82, fdatasync 75 83, ftruncate 77 46, getdents 78 -,
getdents64 217 61, getcwd 79 17, chdir 80 49, fchdir 81 50, umask 95 166, gettimeofday 96 169,
getrlimit 97 163, setrlimit 160 164, getrusage 98 165, times 100 153, getuid 102 174, getgid 104 176, geteuid 107 175,
getegid 108 177, getppid 110 173, getpgrp 111 -, getgroups 115 158, getresuid 118 148, getresgid 120 150,
rt_sigpending 127 136, rt_sigtimedwait 128 137, rt_sigsuspend 130 133, sigaltstack 131 132,
sched_get_priority_max 146 125, sched_get_priority_min 147 126, arch_prctl 158 -, gettid 186 178, futex 202 98,
time 201 -, epoll_create 213 -, epoll_create1 291 20, epoll_ctl 233 21, epoll_wait 232 -, epoll_pwait 281 22,
epoll_pwait2 441 441, set_tid_address 218 96, restart_syscall 219 128, timer_settime 223 110, timer_gettime 224 108,
timer_getoverrun 225 109, timer_delete 226 111, exit_group 231 94, waitid 247 95, openat 257 56, openat2 437 437,
newfstatat 262 79, faccessat 269 48, faccessat2 439 439, pselect6 270 72, ppoll 271 73,
set_robust_list 273 99, signalfd 282 -, signalfd4 289 74, timerfd_create 283 85, timerfd_settime 286 86,
timerfd_gettime 287 87, eventfd 284 -, eventfd2 290 19, dup3 292 24, pipe2 293 59, getcpu 309 168, getrandom 318 278,
membarrier 324 283, statx 332 291, rseq 334 293, close_range 436 436, futex_waitv 449 449
"""
# allowed with some arguments only, see seccomp.py
_CHECKED = """
kill 62 129, tgkill 234 131, clone 56 220, ioctl 16 29, fcntl 72 25, socketpair 53 199, prlimit64 302 261,
prctl 157 167, madvise 28 233, getpgid 121 155, getsid 124 156, sched_getaffinity 204 123, timer_create 222 107,
clock_gettime 228 113, clock_getres 229 114, clock_nanosleep 230 115, mmap 9 222
"""
# calls that succeed and do nothing: advice
_NOTHING = "fadvise64 221 223"
# calls that libc can do without: their flags ask about cached pages
_ABSENT = "preadv2 327 286, pwritev2 328 287"
# calls that read links: Landlock does not guard their targets, so for programs nothing is a link
_LINKS = "readlink 89 -, readlinkat 267 78"
# calls that a compiler needs on top
_BUILD = """
fork 57 -, vfork 58 -, creat 85 -, mkdir 83 -, mkdirat 258 34, rmdir 84 -, unlink 87 -, unlinkat 263 35, rename 82 -,
renameat 264 38, renameat2 316 276, link 86 -, linkat 265 37, symlink 88 -, symlinkat 266 36, truncate 76 45,
chmod 90 -, fchmod 91 52, fchmodat 268 53, utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88,
setpgid 109 154, flock 73 32, fallocate 285 47, copy_file_range 326 285, statfs 137 43, fstatfs 138 44, sysinfo 99 179,
sendfile 40 71
"""
# calls that only an escape needs: SIGSYS kills the program
_ATTACK = """
ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, mount 165 40, umount2 166 39,
pivot_root 155 41, chroot 161 51, unshare 272 97, setns 308 268, bpf 321 280, perf_event_open 298 241,
init_module 175 105, finit_module 313 273, delete_module 176 106, kexec_load 246 104, kexec_file_load 320 294,
reboot 169 142, swapon 167 224, swapoff 168 225, open_by_handle_at 304 265, add_key 248 217, request_key 249 218,
keyctl 250 219, kcmp 312 272, pidfd_getfd 438 438, move_mount 429 429, open_tree 428 428, fsopen 430 430,
fsconfig 431 431, fsmount 432 432, fspick 433 433, mount_setattr 442 442, iopl 172 -, ioperm 173 -, acct 163 89,
settimeofday 164 170, clock_settime 227 112, sethostname 170 161, setdomainname 171 162, quotactl 179 60
"""
# calls of the runner itself for which libc has no function
_OWN = "seccomp 317 277, landlock_create_ruleset 444 444, landlock_add_rule 445 445, landlock_restrict_self 446 446"


def _numbers(table: str, machine: str) -> dict[str, int]:
    column = 1 + MACHINES.index(machine)
    rows = (row.split() for row in table.split(","))
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}


class Calls:
    """System call tables of one machine, each a dict from name to number.

    Attributes:
        run: Calls that a solution may make.
        checked: Calls that it may make with some arguments.
        nothing: Calls that succeed and do nothing.
        absent: Calls that are answered as if the kernel lacked them.
        links: Calls that read links; allowed in builds.
        build: Calls that a compiler may make on top.
        attack: Calls that kill the program.
        own: Calls of the runner itself.
    """

    def __init__(self, machine: str) -> None:
        if machine not in MACHINES:
            raise OSError(f"no system calls known of {machine!r}, only of {', '.join(MACHINES)}: nothing isolates here")
        self.run = _numbers(_RUN, machine)
        self.checked = _numbers(_CHECKED, machine)
        self.nothing = _numbers(_NOTHING, machine)
        self.absent = _numbers(_ABSENT, machine)
        self.links = _numbers(_LINKS, machine)
        self.build = _numbers(_BUILD, machine)
        self.attack = _numbers(_ATTACK, machine)
        self.own = _numbers(_OWN, machine)


@functools.cache
def calls(machine: str) -> Calls:
    """Return the system call tables of a machine, named as by `os.uname`.

    Raises:
        OSError: The machine is unknown.
    """
    return Calls(machine)


LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long


def syscall(number: int, *arguments: int | bytes | ctypes.Structure | None) -> int:
    """Make a system call.

    Args:
        number: Its number on this machine.
        arguments: Integers go as 64 bit, bytes and structures as a pointer, None as 0.

    Raises:
        OSError: The kernel refused.
    """
    answer: int = LIBC.syscall(ctypes.c_long(number), *(_word(argument) for argument in arguments))
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return answer


def _word(argument: int | bytes | ctypes.Structure | None) -> object:
    if isinstance(argument, ctypes.Structure):
        return ctypes.byref(argument)
    return argument if isinstance(argument, bytes) else ctypes.c_long(argument or 0)


def prctl(option: int, value: int) -> None:
    """Set a property of this process.

    Raises:
        OSError: The kernel refused.
    """
    if LIBC.prctl(option, *(ctypes.c_ulong(word) for word in (value, 0, 0, 0))) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_SET_THP_DISABLE = 1, 4, 36, 38, 41
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
