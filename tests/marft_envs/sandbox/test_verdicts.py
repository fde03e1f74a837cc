"""The same programs get the same verdicts from every backend."""

import pytest

from marft_envs.sandbox import Limits, ProgramChecker, Submission, Test, Verdict

TESTS = [Test(b"%d\n" % n, b"%d\n" % (2 * n)) for n in (1, 2, 21)]
SHORT = Limits(cpu_s=0.4, wall_s=60, memory_mb=64, output_mb=1)
ALL = "#include <bits/stdc++.h>\nusing namespace std;\n"
HEAD = "#include <cstdio>\n#include <cstdlib>\n"  # where it is enough: compiled in a fifth of the time
PYTHON = {
    "right": ("print(int(input()) * 2)", "OK"),
    "buffer": ("import sys\nsys.stdout.buffer.write(b'%d' % (2 * int(sys.stdin.buffer.read())))", "OK"),
    "open(0)": ("if __name__ == '__main__':\n    print(2 * int(open(0).read()))", "OK"),
    "exit": ("print(int(input()) * 2)\nexit()\nprint(1)", "OK"),
    "quit": ("print(int(input()) * 2)\nquit(0)", "OK"),
    "many digits": (f"assert int(str(10**9999)) > {'9' * 5000}\nprint(int(input()) * 2)", "OK"),
    "recursion in a thread": (
        "import sys, threading\nsys.setrecursionlimit(10**5)\nthreading.stack_size(1 << 25)\n"
        "def f(n): return n and 1 + f(n - 1)\n"
        "def main(): print(2 * int(input()) if f(30000) else 0)\n"
        "t = threading.Thread(target=main)\nt.start()\nt.join()",
        "OK",
    ),
    "wrong": ("print(3)", "WA"),
    "silent": ("", "WA"),
    "binary": ("import sys\nsys.stdout.buffer.write(bytes(range(256)))", "WA"),
    "endless": ("while True: pass", "TLE"),
    "asleep": ("import time\ntime.sleep(60)", "ILE"),
    "greedy": ("x = [0] * 10**9", "MLE"),
    "greedy, slowly": ("x = []\nwhile True: x.append(bytes(100000))", "MLE"),
    "raises": ("1 / 0", "RE"),
    "exit 3": ("print(int(input()) * 2)\nraise SystemExit(3)", "RE"),
    "unknown name": ("print(undefined)", "RE"),
    "syntax": ("print(", "CE"),
    "indentation": ("  x = 1\n y = 2", "CE"),
    "null byte": ("x = '\0'", "CE"),
    "flood": ("while True: print('x' * 1000)", "OLE"),
    "forbidden": ("import ctypes\nctypes.CDLL(None).ptrace(0, 0, 0, 0)", "SV"),
}
CXX = {
    "right": (ALL + "int main() { long n; cin >> n; cout << 2 * n << endl; }", "OK"),
    "wrong": (HEAD + 'int main() { puts("3"); }', "WA"),
    "endless": (HEAD + "int main() { volatile int i = 0; while (true) i = i + 1; }", "TLE"),
    "greedy": (HEAD + "int main() { while (true) *(volatile char*) new char[4096] = 1; }", "MLE"),
    "null": (HEAD + "int main() { volatile int* p = nullptr; *p = 1; }", "RE"),
    "abort": (HEAD + "int main() { abort(); }", "RE"),
    "exit 3": (HEAD + 'int main() { long n; scanf("%ld", &n); printf("%ld", 2 * n); return 3; }', "RE"),
    "no semicolon": (HEAD + "int main() { return 0 }", "CE"),
    "no main": (HEAD, "CE"),
    "flood": (HEAD + 'int main() { while (true) puts("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"); }', "OLE"),
}
PROGRAMS = [("python", name, *found) for name, found in PYTHON.items()] + [
    ("c++", n, *found) for n, found in CXX.items()
]


def test_every_program_gets_its_verdict(judge):
    submissions = [
        Submission(
            program, language, TESTS, Limits(0.4, 1.0, 64, 1) if verdict == "ILE" else SHORT, stop_on_failure=True
        )
        for language, _, program, verdict in PROGRAMS
    ]
    judgements = judge.run_many(submissions)
    found = {(language, name): j.verdict for (language, name, *_), j in zip(PROGRAMS, judgements, strict=True)}
    assert found == {(language, name): verdict for language, name, _, verdict in PROGRAMS}
    assert {j.backend for j in judgements} == {judge.backend}


def test_a_result_tells_what_was_used(judge):
    program = "import sys\nx = sum(range(4 * 10**6))\nheld = b'x' * (50 << 20)\nsys.stderr.write('words')\nprint('out')"
    result = judge.run(program, tests=[Test(b"", b"out")]).tests[0]
    assert result.verdict == Verdict.OK
    assert 0.02 < result.cpu_s < 2
    assert result.wall_s > 0.9 * result.cpu_s
    assert 50 < result.peak_memory_mb < 100
    assert (result.exit_status, result.output, result.stderr, result.score) == (0, b"out\n", b"words", 1.0)


def test_a_program_can_not_make_its_peak_memory_forgotten(judge):
    program = (
        "held = b'x' * (50 << 20)\ndel held\n"
        "try: open('/proc/self/clear_refs', 'w').write('5')\nexcept OSError: pass\nprint('out')"
    )
    result = judge.run(program, tests=[Test(b"", b"out")]).tests[0]
    assert result.verdict == Verdict.OK
    assert result.peak_memory_mb > 50


def test_a_limit_cuts_where_it_is(judge):
    result = judge.run("while True: pass", tests=[Test(b"", b"")], limits=Limits(cpu_s=0.3)).tests[0]
    assert 0.3 <= result.cpu_s < 0.6


def test_output_up_to_the_limit_is_kept_and_one_byte_more_is_too_much(judge):
    limits = Limits(output_mb=0.5)
    for extra, verdict in ((0, "OK"), (1, "OLE")):
        size = (1 << 19) + extra
        program = f"import sys\nsys.stdout.write('x' * {size})"
        judgement = judge.run(program, tests=[Test(b"", b"x" * size)], limits=limits, checker="exact")
        assert judgement.verdict == verdict
        assert len(judgement.tests[0].output) == 4096


def test_large_input_may_be_read_or_not(judge):
    data = b"1" * (40 << 20)
    tests = [Test(data, b"%d" % len(data))]
    assert judge.run("import sys\nprint(len(sys.stdin.buffer.read()))", tests=tests).verdict == "OK"
    assert judge.run(f"print({len(data)})", tests=tests).verdict == "OK"


def test_compile_output_names_the_line_and_not_the_folder(judge):
    for language, program, words in (("python", "x = (\n", "line 1"), ("c++20", "int main() { x; }", "main.cpp:1")):
        judgement = judge.run(program, language, TESTS)
        assert judgement.verdict == "CE"
        assert judgement.tests == ()
        assert words in judgement.compile_output
        assert "/tmp" not in judgement.compile_output


def test_cxx20_is_another_language_than_cxx17(judge):
    program = HEAD + 'int main() { auto f = []<class T>(T x) consteval { return x; }; printf("%d", f(2)); }'
    assert judge.run(program, "c++20", [Test(b"", b"2")]).verdict == "OK"
    assert judge.run(program, "c++17", [Test(b"", b"2")]).verdict == "CE"


def test_the_rest_is_skipped_after_the_first_failure_where_asked(judge):
    tests = [TESTS[0], Test(b"1", b"3"), TESTS[1]]
    submission = Submission("print(2 * int(input()))", "python", tests)
    assert [test.verdict for test in judge.submit(submission).result().tests] == ["OK", "WA", "OK"]
    submission = Submission("print(2 * int(input()))", "python", tests, stop_on_failure=True)
    assert [test.verdict for test in judge.submit(submission).result().tests] == ["OK", "WA", "SKIPPED"]


def test_nothing_is_left_for_the_next_program(judge):
    look = (
        "import os\nseen = []\n"
        "for folder in ('.', '/tmp', '/box'):\n"
        "    try: seen += [name for name in os.listdir(folder) if 'secret' in name]\n"
        "    except OSError: pass\n"
        "print(seen)"
    )
    leave = "open('secret_1', 'w')"
    judgements = judge.run_many(
        [Submission(leave, "python", TESTS), Submission(look, "python", [Test(b"", b"[]")])] * 3
    )
    assert [j.verdict for j in judgements] == ["RE", "OK"] * 3


def test_expected_outputs_and_other_tests_are_not_to_be_found(judge):
    program = (
        "import os\nexpected, other = ('4711-%s' % word for word in ('expected', 'input'))\n"
        "for folder in ('.', '/box', '/marft', '/tmp'):\n"
        "    for path, _, names in os.walk(folder):\n"
        "        for name in names:\n"
        "            try: data = open(os.path.join(path, name), 'rb').read(1 << 20)\n"
        "            except OSError: continue\n"
        "            for word in (expected, other):\n"
        "                if word.encode() in data: print('found', word, name)\n"
    )
    results = judge.run(program, tests=[Test(b"", b"4711-expected"), Test(b"4711-input", b"4711-expected")]).tests
    assert [result.output for result in results] == [b"", b""]


@pytest.mark.parametrize("contract", ["function", "files"])
def test_a_checker_program_runs_in_the_jail(judge, contract):
    source = {
        "function": "def check(given, output, expected):\n return sorted(output.split()) == sorted(expected.split())",
        "files": "import sys\n_, want, found = [sorted(open(n).read().split()) for n in sys.argv[1:]]\n"
        "print(0.5 if len(want) != len(found) else int(want == found))",
    }[contract]
    tests = [Test(b"", b"1 2 3")]
    checker = ProgramChecker(source, contract)
    assert judge.run("print(3, 1, 2)", tests=tests, checker=checker).verdict == "OK"
    wrong = judge.run("print(3, 1, 1)", tests=tests, checker=checker)
    assert (wrong.verdict, wrong.passed) == ("WA", 0)
    if contract == "files":
        assert judge.run("print(3)", tests=tests, checker=checker).passed == 0.5


def test_a_checker_program_is_another_tenant_than_the_program(judge):
    checker = ProgramChecker("import os\ndef check(given, output, expected): return not os.path.exists('main.bin')")
    assert judge.run("print(3)", tests=[Test(b"", b"3")] * 2, checker=checker).verdict == "OK"


def test_an_output_that_breaks_a_working_checker_is_wrong(judge):
    """Nobody gets out of a grade by an output that its checker dies of, or loops over until it is ended."""
    checker = ProgramChecker("import os\ndef check(given, output, expected): return int(output) < 9 or os._exit(1)")
    tests = [Test(b"", b"3")] * 2
    assert judge.run("print(9)", tests=tests, checker=checker).verdict == "WA"
    assert judge.run("print(4)", tests=tests, checker=checker).verdict == "OK"


@pytest.mark.parametrize(
    ("language", "program"),
    [
        ("python", "x = (" + ", ".join(f"'{chr(0x1F600 + n % 1000)}' * {4000 + n // 1000}" for n in range(3000)) + ")"),
        ("c++", "int x[9500000] = {1};\nint main() {}"),
    ],
    ids=["constants that are folded", "a table"],
)
def test_a_program_that_grows_when_it_is_built_does_not_compile(judge, language, program):
    """More than a build may leave is the program's fault: nobody gets out of a grade by it."""
    judgement = judge.run(program, language, TESTS)
    assert judgement.verdict == "CE"
    assert judgement.compile_output


def test_a_program_within_a_limit_below_the_runners_own_memory_is_right(judge):
    program = HEAD + 'int main() { long n; scanf("%ld", &n); printf("%ld", 2 * n); }'
    assert judge.run(program, "c++", TESTS, Limits(memory_mb=1)).verdict == "OK"
    assert judge.run("print(int(input()) * 2)", tests=TESTS, limits=Limits(memory_mb=64.5, stderr_kb=0.5)).passed == 1


def test_a_broken_checker_program_is_no_grade(judge):
    checker = ProgramChecker("def check(given, output, expected):\n    raise OSError(expected)")
    judgement = judge.run("print(3)", tests=[Test(b"", b"top secret")], checker=checker)
    assert judgement.verdict == "INTERNAL"
    assert not judgement.is_grade
    assert "top secret" not in str(judgement)


def test_two_slots_do_not_see_each_other(judge):
    """One program looks for the source of the other, and signals all it can, while the other counts."""
    hunter = (
        "import os, time\nend = time.time() + 0.5\nfound = 0\n"
        "while time.time() < end:\n"
        "    for pid in (-1, *range(2, 400)):\n"
        "        try: os.kill(pid, 0); found += pid != os.getpid()\n"
        "        except OSError: pass\n"
        "print(found)"
    )
    victim = "import time\nend = time.time() + 0.6\nwhile time.time() < end: time.sleep(0.01)\nprint(0)"
    tests = [Test(b"", b"0")]
    judgements = judge.run_many([Submission(hunter, "python", tests), Submission(victim, "python", tests)] * 2)
    assert [j.verdict for j in judgements] == ["OK"] * 4
