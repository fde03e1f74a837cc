"""Compile messages are the same in each run, and tell nothing about the machine."""

import os
import re
import socket
from pathlib import Path

import pytest

from marft_envs.sandbox import Judge, Test, Verdict
from marft_envs.sandbox.submission_run import repeatable
from tests.marft_envs.sandbox.judge_backends import BACKENDS

CXX, TESTS = "c++17", [Test(b"", b"")]
PROGRAMS = {
    "a linker": (CXX, "void f(); int main() { f(); }"),
    "a linker without main": (CXX, "extern int g(); namespace { int x = g(); }"),
    "an assembler": (CXX, 'int main() { asm("bad"); }'),
    "a file of an assembler": (CXX, 'asm(".include \\"none\\""); int main() {}'),
    "an assembler without a file": (CXX, 'asm(".file \\"\\"\\n.error \\"x\\"\\n bad"); int main() {}'),
    "the time": (CXX, "#pragma message(__TIME__ __DATE__ __TIMESTAMP__)\nint main() { x }"),
    "its own file": (CXX, "#pragma message(__FILE__ __BASE_FILE__)\nint main() { x }"),
    "standard headers": (CXX, "#include <bits/stdc++.h>\nint main() { std::sort(1, 2); }"),
    "the end of memory": (CXX, '#include "/dev/urandom"\nint main() {}'),
    "the name of the host": (CXX, "#include </etc/hostname>\n#include </proc/sys/kernel/hostname>\nint main() { x }"),
    "the boot id": (CXX, '#include "/proc/sys/kernel/random/boot_id"\nint main() { x }'),
    "its command line": (CXX, '#include "/proc/self/cmdline"\nint main() { x }'),
    "its environment": (CXX, '#include "/proc/self/environ"\nint main() { x }'),
    "its mounts": (CXX, '#include "/proc/self/mountinfo"\nint main() { x }'),
    "a folder": (CXX, '#include "build"\n#include "."\nint main() { x }'),
    "Python": ("python", "def f(:\n  pass"),
    "Python's parser": ("python", "-" * 100_000 + "1"),
    "an encoding": ("python", "# coding: none\nx = 1"),
}


def messages(backend, names=tuple(PROGRAMS)):
    """Return what a new judge says of programs."""
    with Judge(backend, workers=1, self_test=False) as judge:
        found = {name: judge.run(PROGRAMS[name][1], PROGRAMS[name][0], TESTS) for name in names}
    assert {judgement.verdict for judgement in found.values()} == {Verdict.CE}
    return {name: judgement.compile_output for name, judgement in found.items()}


def test_the_path_of_a_box_is_in_no_message():
    names = ("a linker", "a file of an assembler", "the time")
    assert messages("landlock", names) == messages("landlock", names)


@pytest.mark.attacks
@pytest.mark.parametrize("backend", BACKENDS)
def test_compile_messages_repeat_and_tell_nothing_of_the_machine(backend):
    first, second = messages(backend), messages(backend)
    assert first == second
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    told = "\n".join(first.values())
    for own in (boot, boot[:8], os.uname().release, "marft-sandbox", str(Path.home()), "/tmp/"):
        assert own not in told
    assert not re.search(rf"\b{re.escape(socket.gethostname())}\b", told)
    assert "undefined reference to `f()'" in first["a linker"]
    assert "no such instruction" in first["an assembler without a file"]
    assert "Jan  1 1970" in first["the time"]
    assert first["the end of memory"] == "the compiler: out of memory (2048 MiB)"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (b"ld: build/ccUXVT3N.o: in f\nbuild/ccabc123.s:4: x", "ld: build/main.o: in f\nbuild/main.s:4: x"),
        (b"ld: /tmp/b/0/build/cc012345.ltrans0.o: x", "ld: /box/build/main.ltrans0.o: x"),
        (b"0x7f3a5c8b1d24 __libc_start_main\n0x55d0c2a1b3f0 main", "0x... __libc_start_main\n0x... main"),
        (b"thread 0x00007f3a5c8b1d24 (most recent)", "thread 0x... (most recent)"),
        (b"5 | long x = 0x7fffffffffffffff, y = 0xdeadbeef;", "5 | long x = 0x7fffffffffffffff, y = 0xdeadbeef;"),
        (b"main.cpp: ccache.x build/ccache/x \xff", "main.cpp: ccache.x build/ccache/x \ufffd"),
    ],
)
def test_only_what_differs_is_replaced(said, shown):
    assert repeatable(said, "/tmp/b/0") == shown


def test_paths_are_replaced_before_messages_are_cut():
    long = b"/tmp/a-long-name/0/x " * 400
    assert repeatable(long, "/tmp/a-long-name/0") == ("/box/x " * 400)[:4096]
