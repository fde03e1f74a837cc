"""The backends without an engine: what is theirs ends with them, and root is dropped before a jail is made."""

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from marft_envs.sandbox import Judge, Limits, Submission, Test, host_machine
from marft_envs.sandbox.host_machine import (
    UIDS_PER_SLOT,
    find_tools,
    is_gone,
    make_folder,
    owner_mark,
    physical_cores,
    slot_uids,
    stale_folders,
)
from marft_envs.sandbox.local_runner import ProcessJail
from tests.marft_envs.sandbox.interruption import interrupted, is_running
from tests.marft_envs.sandbox.judge_backends import LOCAL


def our_folders():
    return {path for path, mark in stale_folders() if mark == owner_mark()}


def children(pid):
    """Return all processes that descend from one."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text().split():
                found += [int(child), *children(int(child))]
    return found


def wait_until(condition, timeout_s=60):
    end = time.monotonic() + timeout_s
    while not (met := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return met


def has_worked(pid, seconds=0.2):
    """Return True if a process has used that much CPU time, as a program in a loop does."""
    try:
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    except OSError:
        return False
    return sum(map(int, times)) >= seconds * os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("backend", LOCAL)
def test_nothing_is_left_after_the_end(backend):
    folders, processes = our_folders(), set(children(os.getpid()))
    with Judge(backend=backend, workers=2) as judge:
        assert judge.run("print(1)", tests=[Test(b"", b"1")]).verdict == "OK"
        assert our_folders() - folders
    assert our_folders() == folders
    assert set(children(os.getpid())) <= processes


@pytest.mark.parametrize("backend", LOCAL)
def test_nothing_outlives_an_owner_that_was_killed(backend):
    code = (
        "from marft_envs.sandbox import Judge, Limits, Submission, Test\n"
        "from marft_envs.sandbox.host_machine import owner_mark\n"
        f"judge = Judge(backend={backend!r}, workers=1, self_test=False)\njudge.run('', tests=[Test(b'', b'')])\n"
        "future = judge.submit(Submission('while True: pass', 'python', [Test(b'', b'')], Limits(cpu_s=60)))\n"
        "print(owner_mark(), flush=True)\nfuture.result()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as owner:
        mark = owner.stdout.readline().strip()
        assert wait_until(lambda: any(map(has_worked, children(owner.pid)[1:])))  # the first one is the runner
        below = children(owner.pid)
        owner.send_signal(signal.SIGKILL)
    assert wait_until(lambda: not any(map(is_running, below)))
    assert is_gone(mark)
    with Judge(backend="landlock", workers=1):
        assert mark not in {left for _, left in stale_folders()}


def test_what_a_killed_runner_left_in_its_group_ends_with_it():
    """As bubblewrap leaves a child that waits for it if it is killed in its first moments."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        jail = ProcessJail(["sh", "-c", "sleep 60 & echo $$ $!; wait"], theirs, None)
        runner, child = map(int, ours.makefile().readline().split())
        os.kill(runner, signal.SIGKILL)
        assert is_running(child)
        jail.kill()
        jail.kill()
        jail.release()
    assert wait_until(lambda: not is_running(child))


def blocked_jails(folder):
    """Return processes of bubblewrap that wait forever for a parent that was killed while it started them."""
    command = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/"]
    command += ["--ro-bind-try", f"{folder}/jail", "/marft", "sleep", "0"]
    for attempt in range(1000):
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as parent:
            time.sleep(attempt % 20 / 2000)
            below = children(parent.pid)
            parent.kill()
        blocked = [child for child in below if wait_until(lambda child=child: not is_running(child), 0.05) is False]
        if blocked:
            return blocked
    return []


@pytest.mark.bubblewrap
def test_a_jail_whose_owner_was_killed_while_it_started_ends_with_the_next_judge():
    with subprocess.Popen(["sleep", "inf"]) as owner:  # alive at first, or a judge beside us would remove the folder
        folder = make_folder(owner_mark(owner.pid))
        blocked = blocked_jails(folder)
        owner.kill()
    assert blocked
    with Judge(backend="landlock", workers=1):
        assert wait_until(lambda: not any(map(is_running, blocked)))
        assert not folder.exists()


@pytest.mark.parametrize("backend", LOCAL)
def test_killing_runners_in_the_middle_of_a_batch_loses_no_verdict(backend):
    before = set(children(os.getpid()))

    def kill():
        killed = [pid for pid in set(children(os.getpid())) - before if is_running(pid)]
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: not any(map(is_running, killed)))

    with Judge(backend=backend, workers=2) as judge:
        judgements = judge.run_many(interrupted("print(int(input()) + 1)", 8, kill))
    assert [judgement.verdict for judgement in judgements] == ["OK"] * 8
    assert 1 <= sum("first attempt" in judgement.details for judgement in judgements) <= 2


@pytest.mark.parametrize("backend", LOCAL)
def test_a_compiler_that_was_killed_from_outside_is_run_again(backend):
    before = set(children(os.getpid()))

    def compilers():
        return [pid for pid in set(children(os.getpid())) - before if name_of(pid) == "cc1plus" and is_running(pid)]

    program = "#include <bits/stdc++.h>\nint main() { std::cout << 1; }"
    with Judge(backend=backend, workers=1) as judge:
        future = judge.submit(Submission(program, "c++", [Test(b"", b"1")]))
        assert wait_until(compilers)
        for pid in compilers():
            os.kill(pid, signal.SIGKILL)
        assert future.result().verdict == "OK"


def name_of(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it is about dropping it")
@pytest.mark.parametrize("backend", LOCAL)
def test_root_is_dropped(backend):
    """A process of uid 0 could write /proc/sys without any capability, and read the files of root."""
    program = (
        "import os\n"
        "def can(path, mode):\n"
        "    try: open(path, mode).close()\n"
        "    except OSError: return False\n"
        "    return True\n"
        "print(can('/proc/sys/kernel/core_pattern', 'r+'), can('/etc/shadow', 'r'), 0 in os.getresuid())"
    )
    with Judge(backend=backend, workers=1) as judge:
        assert judge.run(program, tests=[Test(b"", b"False False False")]).verdict == "OK"


def test_slots_and_processes_share_no_user_id():
    ranges = [slot_uids(index) for index in range(64)]
    assert all(last - first + 1 == UIDS_PER_SLOT for first, last in ranges)
    assert all(a[1] < b[0] for a, b in itertools.pairwise(ranges))
    assert min(ranges)[0] > 65_536 or max(ranges)[1] < 65_536


def test_an_owner_is_gone_when_its_process_is_or_its_id_belongs_to_another():
    place, pid, start = owner_mark().rsplit("-", 2)
    assert not is_gone(owner_mark())
    assert is_gone(f"{place}-{pid}-{int(start) - 1}")
    assert is_gone(f"{place}-{2**22 + 1}-5")
    assert not is_gone(f"other-{place}-{2**22 + 1}-5")
    assert not is_gone("nonsense")


def test_owners_of_two_pid_namespaces_are_told_apart(monkeypatch):
    """Containers with one host name and one folder for temporary files each have a process 1."""
    elsewhere, uids = owner_mark(), slot_uids(0)
    monkeypatch.setattr(host_machine, "pid_namespace", lambda: 4026530000)
    assert owner_mark() != elsewhere
    place, pid, start = elsewhere.rsplit("-", 2)
    assert not is_gone(f"{place}-{pid}-{int(start) - 1}")
    assert slot_uids(0) != uids


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it makes a PID namespace")
def test_a_judge_in_another_pid_namespace_leaves_our_folder_alone():
    with Judge(backend="landlock", workers=1) as judge:
        code = (
            "from marft_envs.sandbox import Judge, Test\n"
            "with Judge(backend='landlock', workers=1, self_test=False) as judge:\n"
            "    print(judge.run('print(1)', tests=[Test(b'', b'1')]).verdict)"
        )
        command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", code]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "OK\n"
        assert our_folders()
        assert judge.run("print(1)", tests=[Test(b"", b"1")]).details == {}


@pytest.mark.parametrize("backend", LOCAL)
def test_a_folder_that_a_cleaner_removed_is_made_again(backend):
    with Judge(backend=backend, workers=1) as judge:
        for left in ("runner.py", None):  # a part of it, or all
            for folder in our_folders():
                shutil.rmtree(folder, ignore_errors=True)
                if left:
                    (folder / "jail").mkdir(parents=True)
                    (folder / "jail" / left).touch()
            verdicts = [judge.run("print(1)", tests=[Test(b"", b"1")]).verdict for _ in range(2)]
            assert verdicts == ["OK", "OK"]
    assert not our_folders()


def test_the_machine_is_known():
    assert 1 <= len(physical_cores()) <= len(os.sched_getaffinity(0))
    tools = find_tools()
    assert Path(tools["python"]).is_absolute()


@pytest.mark.parametrize("backend", LOCAL)
def test_limits_reach_the_program(backend):
    limits = Limits(cpu_s=1, memory_mb=100)
    program = "import resource as r\nprint(r.getrlimit(r.RLIMIT_AS)[0] >> 20, r.getrlimit(r.RLIMIT_CORE)[0])"
    with Judge(backend=backend, workers=1) as judge:
        assert judge.run(program, tests=[Test(b"", b"132 1")], limits=limits).verdict == "OK"
