"""Programs that attack the runner, their neighbours and the machine: what each gets, and that nothing is left.

A program prints REACHED where it got what it wanted. Those that could flood the machine run only under the filter
that forbids processes, which the first test of the module makes sure of.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from marft_envs.sandbox.host_machine import find_shown
from marft_envs.sandbox.jail import wire
from marft_envs.sandbox.local_runner import landlock_options
from tests.marft_envs.sandbox.jail_client import (
    CARRIERS,
    FIRST_UID,
    ROOT,
    SYSTEM_PYTHON,
    JailClient,
    compile_cpp,
    needs_landlock,
    needs_root,
    open_client,
)

SIGSYS = -31
CALL = """
import ctypes, os, signal, struct, sys, errno
libc = ctypes.CDLL(None, use_errno=True)
runner = os.getppid()
def call(number, *words):
    answer = libc.syscall(number, *(ctypes.c_long(w) if isinstance(w, int) else w for w in words))
    print('REACHED' if answer >= 0 else errno.errorcode[ctypes.get_errno()])
"""


@pytest.fixture(scope="module", params=CARRIERS)
def jail(request):
    yield from open_client(request.param)


@pytest.fixture(autouse=True)
def nothing_is_left(request):
    yield
    if "jail" in request.fixturenames:
        jail = request.getfixturevalue("jail")
        assert jail.left() == []
        assert jail.python("print('honest')").stdout == b"honest\n"


def held(result: wire.RunResult) -> bool:
    return result.status == wire.RAN and b"REACHED" not in result.stdout


@pytest.mark.parametrize(
    "body",
    [
        "os.fork() == 0 or print('REACHED')",
        "os.forkpty() and print('REACHED')",
        "os.posix_spawn('/bin/true', ['true'], {}); print('REACHED')",
        "print('REACHED' if os.system('true') == 0 else '')",
        "import subprocess; subprocess.run(['/bin/true']); print('REACHED')",
        "import multiprocessing as m; p = m.Process(target=print); p.start(); print('REACHED')",
        "call(57)",
        "call(58)",
        "call(56, signal.SIGCHLD, 0, 0, 0, 0)",
        "call(56, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)",
        "call(435, struct.pack('<11Q', 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88)",
    ],
    ids=lambda body: body[:24],
)
def test_no_second_process(jail, body):
    assert held(jail.python(CALL + body))


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (101, "16, runner, 0, 0"),
        (310, "runner, 0, 0, 0, 0, 0"),
        (311, "runner, 0, 0, 0, 0, 0"),
        (165, "b'none', b'/tmp', b'tmpfs', 0, 0"),
        (272, "0x10000000"),
        (308, "0, 0"),
        (321, "0, 0, 0"),
        (298, "0, 0, -1, -1, 0"),
        (250, "0, 0, 0"),
        (248, "b'user', b'a', b'b', 1, -1"),
        (161, "b'/tmp'"),
        (155, "b'/', b'/'"),
        (304, "0, 0, 0"),
        (438, "3, 0, 0"),
        (312, "runner, runner, 0, 0, 0"),
        (169, "0, 0, 0"),
        (175, "0, 0, 0"),
        (246, "0, 0, 0, 0"),
        (428, "-100, b'/', 1"),
        (172, "3"),
    ],
)
def test_plain_attacks_die_of_sigsys(jail, number, words):
    result = jail.python(CALL + f"call({number}, {words})")
    assert result.exit_status == SIGSYS
    assert held(result)


@pytest.mark.parametrize(
    "body",
    [
        "call(323, 0)",  # userfaultfd
        "call(425, 4, bytes(120))",  # io_uring_setup
        "call(319, b'x', 0)",  # memfd_create
        "call(29, 0, 4096, 0o1777)",  # shmget
        "call(68, 0, 0o1777)",  # msgget
        "call(64, 0, 1, 0o1777)",  # semget
        "call(240, b'q', 0o102, 0o600, 0)",  # mq_open
        "call(434, runner, 0)",  # pidfd_open
        "call(41, 2, 1, 0)",  # socket
        "call(41, 1, 1, 0)",
        "call(41, 16, 3, 0)",
        "call(41, 40, 1, 0)",
        "call(41, 38, 5, 0)",
        "call(53, 1, 2, 0, bytes(8))",  # socketpair of datagrams, which could be sent elsewhere
        "call(53, 2, 1, 0, bytes(8))",
        "call(49, 0, bytes(16), 16)",  # bind
        "call(42, 0, bytes(16), 16)",  # connect
        "call(135, 0x0040000)",  # personality
        "call(54, 0, 1, 7, bytes(4), 4)",  # setsockopt
        "call(46, 0, 0, 0)",  # sendmsg
        "call(40, 1, 0, 0, 1)",  # sendfile
        "call(9, 0, 4096, 3, 0x21, -1, 0)",  # mmap of shared memory
        "call(317, 1, 0, 0)",  # seccomp
        "call(157, 1, 0, 0, 0, 0)",  # survive the runner
        "call(157, 36, 1, 0, 0, 0)",  # become a subreaper
        "call(124, 0); libc.prctl(4, 1) == 0 and print('REACHED')",  # dumpable
        "call(253)",  # inotify_init
        "call(276, 0, 1, 1, 0)",  # tee
        "call(206, 1, bytes(8))",  # io_setup
        "call(141, 0, runner, 5)",  # setpriority
        "call(141, 2, 0, 5)",  # of all processes of this user
        "call(203, runner, 8, struct.pack('<Q', 1))",  # sched_setaffinity
        "call(302, runner, 0, struct.pack('<2Q', 1, 1), 0)",  # prlimit64
        "call(144, runner, 0, bytes(4))",  # sched_setscheduler
    ],
    ids=lambda body: body[:24],
)
def test_refused_calls(jail, body):
    result = jail.python(CALL + body)
    if body.startswith("call(124"):  # getsid is allowed, the rest of that line is what counts
        assert result.stdout.count(b"REACHED") == 1
    else:
        assert held(result)
        assert result.stdout in (b"EPERM\n", b"ENOSYS\n")


@needs_landlock
def test_nobody_maps_zeros_that_others_could_share(jail):
    assert held(jail.python("import os; os.open('/dev/zero', os.O_RDWR); print('REACHED')"))
    assert jail.python("print(open('/dev/zero', 'rb').read(3))").stdout == b"b'\\x00\\x00\\x00'\n"


@pytest.mark.parametrize(
    "body",
    [
        "os.kill(runner, 0)",
        "os.kill(-1, 0)",
        "os.kill(0, 0)",
        "os.killpg(os.getpgid(runner), 0)",
        "call(200, runner, 0); raise OSError",  # tkill
        "call(234, runner, runner, 0); raise OSError",  # tgkill
        "call(129, runner, 0, bytes(128)); raise OSError",  # rt_sigqueueinfo
        "import fcntl; fcntl.fcntl(0, 8, runner)",  # F_SETOWN
        "import fcntl; fcntl.fcntl(0, 15, struct.pack('<ii', 1, runner))",
        "import fcntl; fcntl.fcntl(0, 10, 9)",
        "import fcntl, socket; fcntl.ioctl(socket.socketpair()[0], 0x8901, struct.pack('<i', runner))",  # FIOSETOWN
        "import fcntl; fcntl.ioctl(0, 0x5412, b'x')",  # TIOCSTI
    ],
    ids=lambda body: body[:30],
)
def test_no_signal_to_anybody_else(jail, body):
    result = jail.python(
        CALL + f"try:\n    {body.replace('; ', chr(10) + '    ')}\n    print('REACHED')\nexcept OSError: pass"
    )
    assert held(result)
    assert result.exit_status == 0, result.stderr


def test_signals_to_itself_work(jail):
    assert jail.python("import os, signal; signal.raise_signal(15)").exit_status == -15
    assert jail.python("import os; os.kill(os.getpid(), 15)").exit_status == -15


def test_no_descriptor_is_inherited(jail):
    body = "import os\nfor fd in range(3, 4096):\n    try: os.fstat(fd); print('REACHED', fd)\n    except OSError: pass"
    assert held(jail.python(body))


def test_no_file_can_be_written_or_changed(jail):
    folders = [str(jail.box), ".", "./build", os.path.expanduser("~")]
    if "landlock" in jail.process.args:  # else it's the container that has no such folder
        folders += ["/", "/tmp", "/var/tmp", "/dev/shm", "/run", "/dev"]
    body = f"""
import os
box = {str(jail.box)!r}
for folder in {folders}:
    for action in (
        lambda: open(folder + '/x', 'w'), lambda: os.mkdir(folder + '/d'), lambda: os.symlink('/', folder + '/l'),
        lambda: os.link(box + '/main.py', folder + '/h'), lambda: os.mkfifo(folder + '/f'),
        lambda: os.open(folder, os.O_TMPFILE | os.O_RDWR), lambda: os.rename(box + '/main.py', folder + '/r'),
        lambda: os.chmod(folder, 0o777), lambda: os.utime(folder), lambda: os.setxattr(folder, 'user.a', b'b'),
    ):
        try: action(); print('REACHED')
        except OSError: pass
for action in (
    lambda: open(box + '/main.py', 'a'), lambda: os.chmod(box + '/main.py', 0o777), lambda: os.unlink(box + '/main.py'),
    lambda: os.truncate(box + '/main.py', 0), lambda: os.utime(box + '/main.py'), lambda: os.chown(box, -1, -1),
    lambda: os.fchmod(os.open(box, os.O_RDONLY), 0o777), lambda: os.chmod('/usr', 0o777),
):
    try: action(); print('REACHED')
    except OSError: pass
print('end')
"""
    result = jail.python(body)
    assert held(result)
    assert result.stdout == b"end\n", result.stderr


def test_the_runner_can_neither_be_read_nor_written(jail):
    body = """
import os
for name in ('mem', 'fd/1', 'fd/3', 'fd/4', 'environ', 'maps', 'cwd', 'root', 'exe'):
    for way in (lambda p: open(p, 'rb').read(1), lambda p: open(p, 'r+b'), os.listdir, os.readlink):
        try: way(f'/proc/{os.getppid()}/{name}'); print('REACHED', name)
        except OSError: pass
print('end')
"""
    result = jail.python(body)
    assert held(result), result.stdout
    assert result.stdout == b"end\n"


def test_another_process_of_its_user_cant_look_into_the_runner(jail):
    """It isn't dumpable: this is what holds where runner and programs share a user and see the same /proc."""
    jail.hello()
    owner = (Path("/proc") / str(jail.process.pid) / "status").read_text().partition("Uid:")[2].split()[0]
    user = int(owner) if ROOT and owner != "0" else None
    if ROOT and user is None:
        pytest.skip("root may look into anything")
    for name in ("environ", "maps", "mem"):
        command = ["head", "-c1", f"/proc/{jail.process.pid}/{name}"]
        look = subprocess.run(command, user=user, group=user, capture_output=True, check=False)
        assert look.returncode != 0
        assert b"Permission denied" in look.stderr


@needs_landlock
@pytest.mark.parametrize("carrier", [parameter for parameter in CARRIERS if "landlock" in parameter.values[0]])
def test_nothing_outside_can_be_read(carrier):
    """Not even what the same user owns and everybody may read."""
    folder = Path(tempfile.mkdtemp())
    secret = folder / "secret"
    secret.write_text("REACHED")
    for path, mode in ((folder, 0o777), (secret, 0o666)):
        path.chmod(mode)
    try:
        with JailClient(carrier) as jail:
            places = [
                str(secret),
                str(folder),
                f"{jail.box}/../../{folder.name}/secret",
                "/proc/self/environ",
                "/proc/mounts",
            ]
            places += ["/etc/passwd", "/sys/kernel", "/home", "/"]
            body = f"""
import os
for place in {places}:
    for way in (open, os.listdir):
        try: print('REACHED', place, way(place))
        except OSError: pass
print('end')
"""
            result = jail.python(body)
            assert held(result), result.stdout
            assert result.stdout == b"end\n"
    finally:
        shutil.rmtree(folder)


@needs_landlock
@needs_root
@pytest.mark.parametrize("version", [None, 0], ids=["with Landlock", "without"])
def test_landlock_closes_proc_and_etc_in_containers_where_the_kernel_has_it(version):
    places = {
        "/proc/self/clear_refs": "w",
        "/proc/self/mountinfo": "r",
        "/sys/kernel/uevent_seqnum": "r",
        "/etc/passwd": "r",
    }
    body = (
        f"for place, mode in {places}.items():\n"
        "    try: open(place, mode).close(); print(place)\n"
        "    except OSError: pass"
    )
    with JailClient("uid", landlock_abi=version) as jail:
        found = jail.python(body).stdout.decode().split()
        assert found == ([] if version is None else list(places))


@needs_landlock
@pytest.mark.parametrize("name", ["site-packages", "dist-packages"])
def test_installed_packages_are_closed_and_the_library_is_open(name):
    """Our own problems with their answers may be installed beside the interpreter."""
    prefix = Path(tempfile.mkdtemp())
    try:
        library = prefix / "lib" / "python3.11"
        (library / name / "envs_data").mkdir(parents=True)
        (library / name / "envs_data" / "answers").write_text("REACHED")
        (library / "json.py").write_text("library")
        (prefix / "bin").mkdir()
        (prefix / "bin" / "python3").write_text("binary")
        prefix.chmod(0o755)
        user = ["--uids", f"{FIRST_UID}:{FIRST_UID + 3}"] if ROOT else []
        shown = find_shown({"system": SYSTEM_PYTHON, "python": str(prefix / "bin" / "python3")})
        options = ["--isolation", "landlock", *landlock_options(shown), *user]
        with JailClient("landlock", options=options) as jail:
            result = jail.python(
                f"for n in ('json.py', '../../bin/python3'): print(open({str(library)!r} + '/' + n).read())"
            )
            assert result.stdout == b"library\nbinary\n"
            result = jail.python(f"print(open({str(library / name / 'envs_data' / 'answers')!r}).read())")
            assert held(result)
            assert b"PermissionError" in result.stderr
    finally:
        shutil.rmtree(prefix)


def test_limits_cant_be_raised_or_shed(jail):
    body = """
import resource as r
for name in ('CPU', 'AS', 'FSIZE', 'NOFILE', 'CORE', 'MEMLOCK', 'MSGQUEUE'):
    number = getattr(r, 'RLIMIT_' + name, 12)
    soft, hard = r.getrlimit(number)
    try: r.setrlimit(number, (hard + 1, hard + 1)); print('REACHED', name)
    except (OSError, ValueError): pass
    print(name, soft, hard)
"""
    result = jail.python(body, cpu_ms=1500, memory_kb=300 << 10, output_bytes=5000)
    assert held(result)
    assert result.stdout.decode().split("\n") == [
        "CPU 3 3",
        f"AS {300 << 20} {300 << 20}",
        "FSIZE 5001 5001",
        "NOFILE 64 64",
        "CORE 1 1",
        "MEMLOCK 0 0",
        "MSGQUEUE 0 0",
        "",
    ]


def test_thread_bomb(jail, tmp_path):
    """Threads that take no memory: the kernel's count, or ours, ends them."""
    bomb = compile_cpp(
        """
#include <pthread.h>
#include <unistd.h>
#include <cstdio>
static char stacks[20000][16384];
void *wait_for_ever(void *) { for (;;) pause(); }
int main() {
    int count = 0;
    pthread_attr_t a;
    pthread_attr_init(&a);
    for (; count < 20000; count++) {
        pthread_t t;
        pthread_attr_setstack(&a, stacks[count], sizeof stacks[count]);
        if (pthread_create(&t, &a, wait_for_ever, nullptr)) break;
    }
    puts(count > 15000 ? "REACHED" : "few");  // threads are counted at ticks: a busy machine lets some thousand pass
    fflush(stdout);
    sleep(3);
}""",
        tmp_path / "bomb",
        "-pthread",
        "-static",
    )
    result = jail.program(bomb, memory_kb=2 << 20, wall_ms=1000)
    assert held(result)
    counted_by_kernel = ROOT and "--uids" in jail.process.args
    assert result.flags == (wire.WALL_LIMIT if counted_by_kernel else wire.THREAD_LIMIT)


def test_the_32_bit_entry_of_the_kernel_is_closed(jail, tmp_path):
    if os.uname().machine != "x86_64":
        pytest.skip("x86_64 has this entry, nothing else")
    source = """
#include <cstdio>
int main() {
    int answer;
    asm volatile("int $0x80" : "=a"(answer) : "a"(2) : "memory");  // fork
    puts("REACHED");
}"""
    result = jail.program(compile_cpp(source, tmp_path / "a", "-static"))
    assert result.exit_status == SIGSYS
    assert held(result)


def test_x32_calls_do_not_exist(jail):
    assert jail.python(CALL + "call(0x40000000 + 57)").stdout == b"ENOSYS\n"


def test_the_trace_of_one_run_is_not_in_the_next(jail):
    first = jail.python("import os; os.environ['A'] = 'b'; os.write(0, b'x' * 99); print(os.getpid())", b"one")
    second = jail.python("import os; print(sorted(os.environ), len(os.read(0, 99)))", b"two")
    assert first.exit_status == 0
    expected = "['HOME', 'LANG', 'MALLOC_ARENA_MAX', 'PATH', 'PYTHONDONTWRITEBYTECODE', 'PYTHONHASHSEED'] 3"
    assert second.stdout.decode().strip() == expected


def test_another_submission_has_another_uid(jail):
    if not (ROOT and "--uids" in jail.process.args):
        pytest.skip("this runner has one uid only")
    seen = []
    for _ in range(4):
        seen.append(jail.python("import os; print(os.getresuid(), os.getresgid(), os.getgroups())").stdout)
        jail.reset()
    assert len(set(seen)) == 3  # uids 2 to 4 of the range take turns, the first one is for builds
    assert seen[0] == seen[3]


def test_a_build_leaves_no_process(jail):
    body = (
        "import os, time\n"
        "for _ in range(3):\n"
        "    if os.fork() == 0:\n"
        "        os.setpgid(0, 0)\n"
        "        if os.fork(): os._exit(0)\n"
        "        time.sleep(60)\n"
        "print('done')"
    )
    jail.put("main.py", body.encode())
    result = jail.build(SYSTEM_PYTHON, "-I", "-S", jail.box / "main.py")
    assert (result.exit_status, result.flags) == (0, wire.LEFTOVERS)
    assert jail.left() == []


def test_a_build_that_forks_without_end_is_ended(jail):
    """RLIMIT_NPROC bounds it: safe on a machine without a pids limit."""
    body = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    jail.put("main.py", body.encode())
    result = jail.build(SYSTEM_PYTHON, "-I", "-S", jail.box / "main.py", processes=12, cpu_ms=600, wall_ms=700)
    assert result.flags & (wire.CPU_LIMIT | wire.WALL_LIMIT)
    assert jail.left() == []


def test_a_build_writes_into_its_folder_only_and_a_run_not_even_there(jail):
    body = """
import os
box = os.path.dirname(os.path.abspath(__file__))
for place in FOLDERS:
    try: open(place + '/x', 'w'); print('REACHED', place)
    except OSError: pass
open(os.environ['TMPDIR'] + '/left', 'w').write('built')
os.mkdir('build/deep'); os.chmod('build/deep', 0o700); open('build/deep/er', 'w')
os.symlink('/etc/passwd', 'build/link')
"""
    folders = [str(jail.box), "/tmp", "/var/tmp", "/dev/shm"][: None if "landlock" in jail.process.args else 1]
    jail.put("main.py", body.replace("FOLDERS", str(folders)).encode())
    result = jail.build(SYSTEM_PYTHON, "-I", "-S", jail.box / "main.py")
    assert held(result), result.stdout
    assert result.exit_status == 0, result.stderr
    os.mkfifo(jail.box / "build" / "fifo")
    assert jail.fetch("build/left") == b"\0built"
    for name in ("build/link", "build/fifo", "build/deep", "build/none", "build/../main.py", "/etc/passwd", "build"):
        assert jail.fetch(name)[0] == wire.FAILED
    run = jail.python(
        "for p in ('build/left', 'build/new'):\n    try: open(p, 'a'); print('REACHED')\n    except OSError: pass"
    )
    assert held(run)
    assert jail.reset() == b"\0"
    assert [path.name for path in jail.box.rglob("*")] in ([], ["build"])


@needs_landlock
@pytest.mark.parametrize("abi", [1, 2])
def test_a_kernel_whose_landlock_can_not_deny_truncation_is_helped_out(abi):
    with JailClient("landlock-same-uid", landlock_abi=abi) as jail:
        victim = jail.box / "victim"
        victim.write_text("kept")
        victim.chmod(0o666)
        body = f"import os\nos.open({str(victim)!r}, os.O_RDONLY | os.O_TRUNC)\nprint('REACHED')"
        assert held(jail.python(body))
        assert victim.read_text() == "kept"
        assert jail.python("print(open('/dev/null').read() == '')").stdout == b"True\n"
