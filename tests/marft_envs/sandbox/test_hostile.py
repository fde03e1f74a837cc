"""Hostile submissions that are no text file of the attack suite: odd bytes, odd limits, outputs against checkers."""

import io
import os
import platform
import zipfile

import pytest

from marft_envs.sandbox import Limits, ProgramChecker, Submission, Test

HEAD = "#include <cstdio>\n"
FIVE = [Test(b"", b"5")]


def _archive() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("__main__.py", "print(5)")
    return file.getvalue()


def _with_loader(path: str) -> str:
    return f'{HEAD}asm(".section .interp,\\"a\\"\\n.string \\"{path}\\"\\n.text");\nint main() {{ puts("5"); }}'


def _with_signal(number: int) -> str:
    return f"import os\nos.kill(os.getpid(), {number})"


# The judge's name of the language, the source, its verdict where 5 is expected.
SUBMISSIONS = {
    "an archive": ("python", _archive(), "CE"),
    "a compiled file": ("python", b"\xa7\r\r\n" + bytes(12) + b"\xe3" + bytes(60), "CE"),
    "a megabyte of zeros": ("python", bytes(1 << 20), "CE"),
    "zeros in a comment": ("python", b"print(5)#" + bytes(1000), "CE"),
    "two byte order marks": ("python", b"\xef\xbb\xbf\xef\xbb\xbfprint(5)", "CE"),
    "a byte order mark and another encoding": ("python", b"\xef\xbb\xbf# coding: latin-1\nprint(5)", "CE"),
    "a byte order mark": ("python", b"\xef\xbb\xbfprint(5)", "OK"),
    "UTF-16": ("python", "print(5)".encode("utf-16"), "CE"),
    "UTF-7": ("python", b"# coding: utf-7\n+AHAAcgBpAG4AdAAoADUAKQ-", "OK"),
    "old line ends": ("python", b"x = 5\rprint(x)\r", "OK"),
    "half a character": ("python", "print('\ud800')", "CE"),
    "an encoding without a name": ("python", b"# coding: \xff\nprint(5)", "OK"),
    "nothing": ("python", b"", "WA"),
    "UTF-16 of C++": ("c++", "int main() {}".encode("utf-16"), "CE"),
    "zeros of C++": ("c++", bytes(1000), "CE"),
    "escapes in an error": ("c++", b"#error \x1b[2J\xff\xfe\xc3\x28 \xe2\x80\xae\n", "CE"),
    "an object file": ("c++", b"\x7fELF\2\1\1" + bytes(100), "CE"),
    "a byte order mark of C++": ("c++", b'\xef\xbb\xbf#include <cstdio>\nint main() { puts("5"); }', "OK"),
    # What the kernel refuses to start is the program's fault, not the jail's.
    "a loader without a name": ("c++", _with_loader(""), "RE"),
    "a loader that is a folder": ("c++", _with_loader("/"), "RE"),
    "a loader that is a device": ("c++", _with_loader("/dev/zero"), "RE"),
    "a loader that is text": ("c++", _with_loader("main.cpp"), "RE"),
    "a loader with a long name": ("c++", _with_loader("x" * 5000), "RE"),
    # The signals that limits send name the verdict, whoever sent them.
    "SIGXCPU": ("python", _with_signal(24), "TLE"),
    "SIGXFSZ": ("python", _with_signal(25), "WA"),  # which Python ignores
    "SIGSYS": ("python", _with_signal(31), "SV"),
    "SIGKILL": ("python", _with_signal(9), "RE"),
    "an error that is told": ("python", "import sys\nsys.exit('MemoryError')", "MLE"),
}


def test_each_odd_submission_gets_its_verdict(judge):
    submissions = [Submission(source, language, FIVE) for language, source, _ in SUBMISSIONS.values()]
    found = dict(zip(SUBMISSIONS, judge.run_many(submissions), strict=True))
    assert {name: one.verdict for name, one in found.items()} == {name: one[2] for name, one in SUBMISSIONS.items()}
    assert "\x1b" in found["escapes in an error"].compile_output  # as it was said: who shows it cleans it


@pytest.mark.parametrize(
    ("limits", "verdicts"),
    [
        (Limits(cpu_s=1e-9, wall_s=5), {"TLE"}),
        (Limits(output_mb=1e-9), {"OLE"}),
        (Limits(memory_mb=1e-9), {"OK", "MLE", "RE"}),  # the interpreter's own memory comes on top
        (Limits(stderr_kb=1e-9), {"OK"}),
    ],
    ids=["CPU time", "output", "memory", "stderr"],
)
def test_limits_of_nearly_nothing_are_limits_and_no_failure_of_the_judge(judge, limits, verdicts):
    programs = [("python", "for _ in range(10**6): pass\nprint(5)")]
    programs += [("c++", HEAD + 'int main() { for (volatile int i = 0; i < 9999999; ++i); puts("5"); }')]
    for language, program in programs:
        assert judge.run(program, language, FIVE, limits).verdict in verdicts


@pytest.mark.parametrize("program", ["import time\ntime.sleep(9)", "while True: pass"], ids=["sleeps", "computes"])
def test_a_program_that_runs_on_ends_at_a_wall_limit_of_nearly_nothing(judge, program):
    assert judge.run(program, "python", FIVE, Limits(wall_s=1e-9)).verdict in {"ILE", "TLE"}


def test_nothing_is_printed_within_a_limit_of_nothing(judge):
    assert judge.run("", tests=[Test(b"", b"")], limits=Limits(output_mb=1e-9)).verdict == "OK"


def test_ten_thousand_tests_are_skipped_at_once(judge):
    submission = Submission("print(6)", "python", FIVE * 10_000, stop_on_failure=True)
    verdicts = [test.verdict for test in judge.submit(submission).result().tests]
    assert (verdicts[0], set(verdicts[1:]), len(verdicts)) == ("WA", {"SKIPPED"}, 10_000)


def test_memory_that_was_used_is_told_after_another_start(judge):
    program = """
#include <cstdio>
#include <unistd.h>
int main(int count, char** words) {
    if (count > 1) return puts("5"), 0;
    char last[] = "x";
    char* again[] = {words[0], last, nullptr};
    volatile char* held = new char[50 << 20];
    for (long at = 0; at < 50 << 20; at += 4096) held[at] = 1;
    execv(words[0], again);
}"""
    result = judge.run(program, "c++", FIVE).tests[0]
    assert result.verdict == "OK"
    assert result.peak_memory_mb > 50


# ------------------------------------------------------------ checker programs

SECRET = b"4711 MARFT_SECRET"
# A checker that trusts what it reads, in each of the ways in which checkers do.
TRUSTING = """
import json, sys
sys.setrecursionlimit(10**6)
def check(given, output, expected):
    kind, _, rest = output.partition(" ")
    print(rest, rest, file=sys.stderr)
    if kind == "json":
        return json.loads(rest) == expected
    if kind == "int":
        return int(rest) == 4711
    if kind == "eval":
        return eval(rest)
    if kind == "float":
        return float(rest)
    if kind == "nested":
        def down(text): return down(text[1:]) if text else 0
        return down(rest)
    if kind == "large":
        return len(bytes(int(rest))) < 0
    assert output == expected, f"wanted {expected}"
    return True
"""
# What a program prints, as a Python expression, and the verdict that the output gets.
OUTPUTS = {
    "'json ' + '[' * 10**6": "WA",
    "'int ' + '9' * 10**5": "WA",
    "'int ' + chr(0x664) + '7' + '1' * 2": "OK",  # a checker that takes such digits takes them
    "'float nan'": "WA",
    "'float inf'": "WA",
    "'float 1e999'": "WA",
    "'float -0.0'": "WA",
    "'float 2'": "WA",
    "'nested ' + 'x' * 10**5": "WA",
    "'large ' + '9' * 12": "WA",
    "'eval exit(0)'": "WA",
    "'eval print(1.0)'": "WA",
    "'eval __import__(\"os\")._exit(0)'": "WA",
    '\'eval __import__("os").kill(__import__("os").getpid(), 9)\'': "WA",
    '\'eval open("main.py", "w")\'': "WA",
    "'eval expected'": "WA",
    "'eval {}[expected]'": "WA",
    "'1.0\\n'": "WA",
    "chr(0) * 1000 + chr(0xD800) + chr(0x10FFFF)": "WA",
}


def test_outputs_against_a_checker_program_neither_break_nor_forge_nor_read_it(judge):
    checker = ProgramChecker(TRUSTING)
    program = "import sys\nsys.stdout.buffer.write(eval(input()).encode('utf-8', 'surrogatepass'))"
    found = judge.run(program, tests=[Test(output.encode(), SECRET) for output in OUTPUTS], checker=checker)
    assert {output: one.verdict for output, one in zip(OUTPUTS, found.tests, strict=True)} == OUTPUTS
    assert "MARFT_SECRET" not in str(found)


def test_files_of_a_checker_program_are_gone_when_the_next_program_looks(judge):
    look = (
        "import os\nfound = []\n"
        "for folder in ('.', '..', '/box', '/tmp', '/dev/shm', '/proc/self/cwd'):\n"
        "    for path, _, names in os.walk(folder):\n"
        "        found += [name for name in names if name in ('checker.py', 'contract.txt', 'input.txt')]\n"
        "        found += [name for name in names if name.endswith('_output.txt')]\n"
        "for name in ('checker.py', 'contract.txt', 'input.txt', 'correct_output.txt', 'solution_output.txt'):\n"
        "    for path in (name, 'build/' + name, '../' + name):\n"
        "        if os.path.exists(path): found.append(path)\n"
        "print(5 if not found else found)"
    )
    checker = ProgramChecker("def check(given, output, expected): return output == expected")
    submissions = [Submission(look, "python", [Test(b"", b"5\n")] * 2, checker=checker) for _ in range(4)]
    assert [one.verdict for one in judge.run_many(submissions)] == ["OK"] * 4


# ------------------------------------------------------------ which machine this is


def test_programs_learn_little_of_the_host(judge):
    program = (
        "import glob, os, socket\nprint(os.uname().nodename, *os.environ.items(), os.getcwd(), os.getuid())\n"
        "paths = ['/etc/hostname', '/etc/machine-id', '/etc/hosts', '/etc/resolv.conf', '/etc/fstab', '/etc/mtab']\n"
        "paths += ['/proc/cmdline', '/proc/uptime', '/proc/sys/kernel/random/boot_id', '/proc/version', '/proc/stat']\n"
        "paths += glob.glob('/sys/class/net/*/address') + glob.glob('/sys/class/dmi/id/*') + glob.glob('/proc/net/*')\n"
        "for path in paths:\n"
        "    try: print(path, open(path).read())\n"
        "    except OSError: pass"
    )
    said = judge.run(program, tests=FIVE).tests[0].output.decode()
    assert "\n/proc" not in said
    assert "\n/sys" not in said
    assert "machine-id" not in said
    assert os.getcwd() not in said
    assert platform.node() not in said or judge.backend == "landlock"
