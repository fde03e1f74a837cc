"""Self-test of a backend: a few attacks that it must withstand before use, in about a second.

Each program prints REACHED if it attains its goal; none does harm if it does. Honest programs run between them and
must be judged correctly. The test is no proof: `marft sandbox check --full` runs the whole suite of
`marft_envs.sandbox.attacks`.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple, Protocol

from marft_envs.sandbox.host_machine import make_folder, owner_mark
from marft_envs.sandbox.judge_data import Judgement, Limits, Submission, Test, Verdict

_FAILS = (Verdict.WA, Verdict.RE, Verdict.SV)
# CPU times grow severalfold on a busy machine: only programs that must hit a limit get a tight one.
_LIMITS = Limits(cpu_s=3.0, wall_s=30.0, memory_mb=64, output_mb=1)
_TIGHT = {Verdict.TLE: replace(_LIMITS, cpu_s=0.3), Verdict.ILE: replace(_LIMITS, wall_s=0.6)}
_REACHED = b"REACHED"


class SelfTest(NamedTuple):
    """A hostile program of the self-test.

    Attributes:
        name: Goal of the attack in words.
        program: Python source; SECRET stands for the path of a file on the host, SUITE for that of this file.
        verdicts: Verdicts that hold the attack.
    """

    name: str
    program: str
    verdicts: tuple[Verdict, ...] = _FAILS


class Row(NamedTuple):
    """Result of one attack.

    Attributes:
        name: Goal of the attack in words.
        verdict: Verdict that it got.
        held: True if it missed its goal and got an allowed verdict.
        note: Reason for a failure; empty if it held.
    """

    name: str
    verdict: Verdict
    held: bool
    note: str = ""


class Judging(Protocol):
    """Interface of a pool or a judge."""

    def submit(self, submission: Submission) -> Future[Judgement]:
        """Queue a submission and return the future of its judgement."""


_CALL = "import ctypes, os, signal\ncall = ctypes.CDLL(None, use_errno=True)\n"
ATTACKS: Sequence[SelfTest] = (
    SelfTest("start a process", "import os\nif os.fork(): print('REACHED')"),
    SelfTest("run another program", "import subprocess\nprint('REACHED', subprocess.run(['/bin/true']).returncode)"),
    SelfTest("open a socket", "import socket\nsocket.socket()\nprint('REACHED')"),
    SelfTest("trace the runner", _CALL + "print('REACHED' if call.ptrace(16, os.getppid(), 0, 0) == 0 else '-')"),
    SelfTest("kill the runner", "import os, time\nos.kill(os.getppid(), 9)\ntime.sleep(0.1)"),
    # Signal 0 only checks permission, so a backend that allows it loses no process.
    SelfTest("kill everything", "import os\nos.kill(-1, 0)\nprint('REACHED')"),
    SelfTest("leave the namespaces", _CALL + "print('REACHED' if call.unshare(0x10000000) == 0 else '-')"),
    SelfTest("read a file of the host", "print(open('SECRET').read())"),
    SelfTest("read the suite itself", "open('SUITE').read(1)\nprint('REACHED')"),  # answers are stored beside it
    SelfTest(
        "write a file",
        "import os\n"
        "for folder in ('.', '/', '/tmp', '/var/tmp', '/dev/shm', '/box', '/box/build', os.path.dirname('SECRET')):\n"
        "    try: os.open(folder, os.O_TMPFILE | os.O_WRONLY)\n"  # leaves nothing behind on success
        "    except OSError: continue\n"
        "    print('REACHED')",
    ),
    SelfTest(
        "write a setting of the kernel",
        "import os\n"
        "for folder, _, names in os.walk('/proc/sys'):\n"
        "    for name in names:\n"
        "        try: os.open(os.path.join(folder, name), os.O_WRONLY)\n"  # writes nothing
        "        except OSError: continue\n"
        "        print('REACHED', name)",
    ),
    SelfTest(
        "forge the runner's answer",
        "import os\n"
        "for descriptor in range(64):\n"
        "    try: os.write(descriptor, bytes(4096))\n"
        "    except OSError: pass\n"
        "for name in ('/proc/1/fd/1', '/proc/%d/fd/1' % os.getppid()):\n"
        "    try:\n        open(name, 'wb').write(bytes(64))\n        print('REACHED')\n"
        "    except OSError: pass",
    ),
    SelfTest("flood the output", "while True: print('x' * 65536)", (Verdict.OLE,)),
    SelfTest("take all memory", "held = [bytearray(1 << 20) for _ in range(1 << 20)]", (Verdict.MLE,)),
    SelfTest("burn the processor", "while True: pass", (Verdict.TLE,)),
    SelfTest("ignore signals and sleep", "import time\ntime.sleep(60)", (Verdict.ILE,)),
)
NUM_ROWS = len(ATTACKS) + 1  # number of rows of `run_selftest`
_HONEST = Submission("print(int(input()) + 1)", "python", [Test(b"41\n", b"42\n")])


def run_selftest(judging: Judging) -> list[Row]:
    """Attack a backend; return a row per attack and one for the honest programs between them."""
    with _secret() as (path, content):
        attacks = [judging.submit(_submission(attack, path)) for attack in ATTACKS]
        honest = [judging.submit(_HONEST) for _ in ATTACKS]
        rows = [_row(attack, future.result(), content) for attack, future in zip(ATTACKS, attacks, strict=True)]
        wrong = {future.result().verdict for future in honest} - {Verdict.OK}
    note = f"judged {', '.join(sorted(wrong))}" if wrong else ""
    return [*rows, Row("honest programs beside them", Verdict.OK, not wrong, note)]


def failures(rows: Sequence[Row]) -> list[str]:
    """Describe the failed attacks in words."""
    return [f"{row.name} ({row.note})" for row in rows if not row.held]


def _submission(attack: SelfTest, secret: str) -> Submission:
    limits = _TIGHT.get(attack.verdicts[0], _LIMITS)
    program = attack.program.replace("SECRET", secret).replace("SUITE", __file__)
    return Submission(program, "python", [Test(b"", b"never printed")], limits, "exact")


def _row(attack: SelfTest, judgement: Judgement, secret: bytes) -> Row:
    output = b"".join(test.output for test in judgement.tests)
    reached = _REACHED in output or secret in output
    held = not reached and judgement.verdict in attack.verdicts
    reasons = "; ".join([*map(str, judgement.details.values()), *(test.reason for test in judgement.tests)])
    note = "it reached its goal" if reached else f"verdict {judgement.verdict}: {reasons}"
    return Row(attack.name, judgement.verdict, held, "" if held else note)


@contextmanager
def _secret() -> Iterator[tuple[str, bytes]]:
    """Create a world-readable file on the host; yield its path and content."""
    folder = make_folder(owner_mark())
    content = secrets.token_hex(16)
    try:
        path = folder / "secret"
        path.write_text(content)
        folder.chmod(0o777)
        path.chmod(0o644)
        yield str(path), content.encode()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
