"""The filters as programs: what they answer to each call, on both machines, without running under them."""

from __future__ import annotations

import errno
import os
import re
import struct
from pathlib import Path

import pytest

from marft_envs.sandbox.jail import seccomp, syscalls
from marft_envs.sandbox.jail.seccomp import filter_for
from marft_envs.sandbox.jail.wire import KIND_BUILD, KIND_RUN

KILL, ALLOW, ERRNO = 0x80000000, 0x7FFF0000, 0x00050000
EPERM, ENOSYS, ENOTTY, EINVAL = (ERRNO | code for code in (errno.EPERM, errno.ENOSYS, errno.ENOTTY, errno.EINVAL))
NOTHING = ERRNO  # success without the call
ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
PID = 4321
CLOCKS = ((0, ALLOW), (2, ALLOW), (7, ALLOW), (2**32 - 14, EINVAL), ((~PID << 3 | 2) % 2**32, EINVAL))
CLOCK_CALLS = ("clock_gettime", "clock_getres", "clock_nanosleep", "timer_create")
PID_CALLS = ("getpgid", "getsid", "sched_getaffinity")


def verdict(
    machine: str, kind: int, number: int, *arguments: int, architecture: int | None = None, truncates: bool = True
) -> int:
    """Run the filter as the kernel does (Documentation/networking/filter.rst) and return its answer."""
    code = filter_for(kind, machine, truncates).bound(PID)
    steps = list(struct.iter_unpack("<HBBI", code))
    words = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, ARCHITECTURE[machine] if architecture is None else architecture, 0, *words)
    accumulator = place = 0
    while True:
        operation, if_true, if_false, operand = steps[place]
        place += 1
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, operand)
        elif operation == 0x54:
            accumulator &= operand
        elif operation == 0x05:
            place += operand
        elif operation == 0x15:
            place += if_true if accumulator == operand else if_false
        elif operation == 0x35:
            place += if_true if accumulator >= operand else if_false
        else:
            assert operation == 0x06
            return operand


MACHINES = pytest.mark.parametrize("machine", syscalls.MACHINES)
KINDS = pytest.mark.parametrize("kind", [KIND_RUN, KIND_BUILD])


@MACHINES
@KINDS
def test_every_number_gets_what_the_tables_say(machine, kind):
    tables = syscalls.calls(machine)
    allowed = set(tables.run.values()) | (set(tables.build.values()) if kind == KIND_BUILD else set())
    attacks = set(tables.attack.values())
    assert not allowed & attacks
    for number in set(range(600)) - set(tables.checked.values()):
        expected = EPERM if number < 424 else ENOSYS
        expected = ALLOW if number in allowed else KILL if number in attacks else expected
        expected = NOTHING if number in tables.nothing.values() else expected
        expected = ENOSYS if number in tables.absent.values() else expected
        if number in tables.links.values():
            expected = ALLOW if kind == KIND_BUILD else EINVAL
        assert verdict(machine, kind, number) == expected, number
    for number in (0x40000000, 0x40000039, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF):
        assert verdict(machine, kind, number) == ENOSYS


@MACHINES
@KINDS
def test_another_architecture_kills(machine, kind):
    for other in (
        0x40000003,
        0x40000028,
        0xC000003E ^ 1,
        ARCHITECTURE["aarch64" if machine == "x86_64" else "x86_64"],
        0,
    ):
        assert verdict(machine, kind, 0, architecture=other) == KILL


@MACHINES
def test_arguments_decide(machine):
    number = syscalls.calls(machine).checked
    thread = 0x3D0F00  # what pthread_create asks for
    cases = [
        ("kill", (PID, 9), ALLOW),
        ("kill", (PID + 1, 9), EPERM),
        ("kill", (2**32 - 1, 9), EPERM),
        ("kill", (0, 9), EPERM),
        ("tgkill", (PID, 77, 6), ALLOW),
        ("tgkill", (1, 1, 9), EPERM),
        ("clone", (thread,), ALLOW),
        ("clone", (17,), EPERM),
        ("clone", (0x4111,), EPERM),
        ("clone", (thread | 0x10000000,), EPERM),
        ("clone", (thread | 0x40000000,), EPERM),
        ("clone", (thread | 0x20000,), EPERM),
        ("ioctl", (1, 0x5401), ALLOW),
        ("ioctl", (1, 0x5412), ENOTTY),
        ("ioctl", (1, 0x8901), ENOTTY),
        ("ioctl", (1, 0x40086602), ENOTTY),
        ("fcntl", (1, 1030), ALLOW),
        ("fcntl", (1, 4), ALLOW),
        ("fcntl", (1, 8), EPERM),
        ("fcntl", (1, 10), EPERM),
        ("fcntl", (1, 15), EPERM),
        ("fcntl", (1, 1024), EPERM),
        ("fcntl", (1, 1031), EPERM),
        ("fcntl", (1, 6), EPERM),
        ("socketpair", (1, 1), ALLOW),
        ("socketpair", (1, 1 | 0o2000000 | 0o4000), ALLOW),
        ("socketpair", (1, 2), EPERM),
        ("socketpair", (1, 5), EPERM),
        ("socketpair", (2, 1), EPERM),
        ("prlimit64", (0, 3), ALLOW),
        ("prlimit64", (PID + 1, 3), EPERM),
        ("prctl", (15,), ALLOW),
        ("prctl", (1, 0), EPERM),
        ("prctl", (22, 2), EPERM),
        ("prctl", (4, 1), EPERM),
        *(("madvise", (0, 0, advice), ALLOW) for advice in (4, 8, 14, 102)),
        *(("madvise", (0, 0, advice), NOTHING) for advice in (0, 3, 9, 12, 20, 21, 22, 23, 25, 100, 101, 2**32 - 1)),
        *((name, (clock,), answer) for name in CLOCK_CALLS for clock, answer in CLOCKS),
        *((name, (pid,), answer) for name in PID_CALLS for pid, answer in ((0, ALLOW), (PID, ALLOW), (1, ENOSYS))),
        ("mmap", (0, 4096, 3, 0x22), ALLOW),
        ("mmap", (0, 4096, 3, 0x22 | 0x20000 | 0x4000), ALLOW),  # a stack
        ("mmap", (0, 4096, 3, 0x12 | 0x800), ALLOW),  # a library
        ("mmap", (0, 4096, 1, 1), ALLOW),  # a file
        ("mmap", (0, 4096, 3, 0x21), EPERM),  # shared memory
        ("mmap", (0, 4096, 3, 0x21 | 0x40000), EPERM),
        ("mmap", (0, 4096, 3, 0x23), EPERM),
    ]
    for name, arguments, expected in cases:
        assert verdict(machine, KIND_RUN, number[name], *arguments) == expected, (name, arguments)


@MACHINES
def test_no_run_truncates_where_landlock_can_not_see_it(machine):
    run = syscalls.calls(machine).run
    cases = [
        ("openat", (0, 0), ALLOW),
        ("openat", (0, 0, os.O_TRUNC), EPERM),
        ("openat2", (), ENOSYS),
        ("read", (), ALLOW),
    ]
    cases += [("open", (0, os.O_TRUNC), EPERM), ("open", (0, os.O_WRONLY), ALLOW)] if "open" in run else []
    for name, arguments, expected in cases:
        assert verdict(machine, KIND_RUN, run[name], *arguments, truncates=False) == expected, name
    assert filter_for(KIND_BUILD, machine, False) == filter_for(KIND_BUILD, machine)


@MACHINES
def test_a_build_may_fork_and_lock_but_neither_signal_nor_leave_its_namespaces(machine):
    number = syscalls.calls(machine).checked
    assert verdict(machine, KIND_BUILD, number["clone"], 17) == ALLOW
    assert verdict(machine, KIND_BUILD, number["clone"], 17 | 0x20000) == EPERM
    assert verdict(machine, KIND_BUILD, number["clone"], 17 | 0x20000000) == EPERM
    assert verdict(machine, KIND_BUILD, number["fcntl"], 1, 6) == ALLOW
    assert verdict(machine, KIND_BUILD, number["fcntl"], 1, 8) == EPERM
    assert verdict(machine, KIND_BUILD, number["kill"], 1, 9) == EPERM


def test_the_pid_stands_in_no_filter_before_it_is_bound():
    code = filter_for(KIND_RUN, "x86_64")
    assert code.bound(PID).count(struct.pack("<I", PID)) == len(code.pid_places) > 0
    number = syscalls.calls("x86_64").checked
    for name in ("kill", "tgkill", *PID_CALLS):
        assert verdict("x86_64", KIND_RUN, number[name], PID) == ALLOW, name
    assert len(code.bound(PID)) == len(code.code)


def test_equal_ends_are_shared_for_the_kernel_translates_the_filter_at_each_start():
    steps = list(struct.iter_unpack("<HBBI", filter_for(KIND_RUN, "x86_64").code))
    returns = [operand for code, _, _, operand in steps if code == 0x06]
    assert len(returns) < 40
    assert len(steps) < 20 + len(returns) + sum(code in (0x15, 0x35) for code, *_ in steps)


@MACHINES
def test_a_filter_with_ends_beyond_a_conditional_jump_decides_the_same(machine, monkeypatch):
    numbers = syscalls.calls(machine).checked
    values = {name: tuple(range(at * 100, at * 100 + 90)) for at, name in enumerate(numbers)}
    checks = {name: seccomp.ArgumentCheck(((0, 0xFFFF, values[name]), (2, 0xFFFFFFFF, (7,)))) for name in numbers}
    monkeypatch.setattr(seccomp, "_checks", lambda build: checks)
    filter_for.cache_clear()
    try:
        assert len(filter_for(KIND_RUN, machine).code) > 8 * 700
        for name, number in numbers.items():
            for value in (values[name][0], values[name][-1], values[name][0] | 0x50000):
                assert verdict(machine, KIND_RUN, number, value, 0, 7) == ALLOW
                assert verdict(machine, KIND_RUN, number, value, 0, 8) == EPERM
            assert verdict(machine, KIND_RUN, number, values[name][-1] + 1, 0, 7) == EPERM
        test_every_number_gets_what_the_tables_say(machine, KIND_RUN)
        test_another_architecture_kills(machine, KIND_RUN)
    finally:
        filter_for.cache_clear()


def test_an_unknown_machine_is_refused():
    with pytest.raises(OSError, match=r"no system calls known of 'riscv64'"):
        filter_for(KIND_RUN, "riscv64")


@MACHINES
def test_numbers_are_those_of_the_kernel_headers(machine):
    if not HEADERS[machine].exists():
        pytest.skip("no kernel headers here")
    defined = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\n", HEADERS[machine].read_text())
    known = {name: int(number) for name, number in defined}
    known["newfstatat"] = known.get("newfstatat", known.get("fstatat"))
    tables = syscalls.calls(machine)
    ours = tables.run | tables.checked | tables.build | tables.attack | tables.own
    assert ours == {name: known.get(name) for name in ours}
