"""A process that plays episodes of a program: a JSON line in, a line with the reward out.

The process leads a group of its own. At its end the whole group is killed, and on Linux everything that inherited its
key too, so that a program that forks or detaches itself leaves nothing behind. It dies with the process that trains.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

KEY = "OPENAI_API_KEY"
TAIL = 2000  # bytes of standard error that a cause shows
POLL_S = 0.25  # between two looks at a process whose output a child of it holds open
END_S = 2.0  # in which the pipes of a killed process close
_TIED = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execvp(sys.argv[1], sys.argv[1:])"  # PR_SET_PDEATHSIG
)
_BYPASS = "127.0.0.1,localhost"  # addresses that no proxy of the user's stands before


class ProgramError(RuntimeError):
    """A program that did not play an episode to its end; says what it did."""


def environment_of(base_url: str, key: str) -> dict[str, str]:
    """Return the environment variables of a program.

    Args:
        base_url: URL of the API for its episodes.
        key: Key of the process.
    """
    own = {"OPENAI_BASE_URL": base_url, KEY: key, "PYTHONUNBUFFERED": "1"}
    for name in ("NO_PROXY", "no_proxy"):
        own[name] = ",".join(filter(None, (os.environ.get(name), _BYPASS)))
    # the Agents SDK would send what it traces to OpenAI, under this key
    return {"OPENAI_AGENTS_DISABLE_TRACING": "1", **os.environ, **own}


class ProgramProcess:
    """A process of a program; used in one event loop.

    Args:
        argv: Command and its arguments.
        environment: Its environment variables.
        output: Most bytes of its output in an episode.
        folder: Its working directory; None: that of this process.

    Attributes:
        played: Episodes that it has played.
    """

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], output: int, folder: str | None = None
    ) -> None:
        self.argv, self.environment, self.output, self.folder = list(argv), dict(environment), output, folder
        self.played = 0
        self._process: asyncio.subprocess.Process | None = None
        self._pumps: list[asyncio.Task[None]] = []
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()  # None: the output has ended
        self._errors = b""
        self._written = 0
        self._flooded = asyncio.Event()

    async def play(self, line: str, *, alone: bool) -> Mapping[str, Any]:
        """Play an episode; return what the program reports.

        Args:
            line: The episode as JSON.
            alone: True if the process ends with this episode; then its last line counts, else its first with a reward.

        Raises:
            ProgramError: It crashed, wrote too much, or reports nothing that can be read.
        """
        self._written = 0
        if self._process is None:
            await self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError):  # a program may not read its line
            self._process.stdin.write(line.encode() + b"\n")
            await self._process.stdin.drain()
            if alone:
                self._process.stdin.close()
        self.played += 1
        reports = asyncio.create_task(self._last_line() if alone else self._report())
        flooded = asyncio.create_task(self._flooded.wait())
        try:
            await asyncio.wait({reports, flooded}, return_when=asyncio.FIRST_COMPLETED)
            if self._flooded.is_set():
                raise ProgramError(f"it wrote more than {self.output} bytes")
            return reports.result()
        finally:
            reports.cancel()
            flooded.cancel()

    async def _start(self) -> None:
        tied = [sys.executable, "-I", "-S", "-c", _TIED] if sys.platform == "linux" else []
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *tied,
            *self.argv,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=self.environment,
            cwd=self.folder,
            start_new_session=True,
        )
        self._pumps = [asyncio.create_task(self._read_output()), asyncio.create_task(self._read_errors())]

    async def _read_output(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        rest = b""
        while chunk := await self._process.stdout.read(1 << 16):
            if self._counts(chunk):
                *lines, rest = (rest + chunk).split(b"\n")
                for one in lines:
                    self._lines.put_nowait(one)
        if rest:
            self._lines.put_nowait(rest)
        self._lines.put_nowait(None)

    async def _read_errors(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(1 << 16):
            if self._counts(chunk):
                self._errors = (self._errors + chunk)[-TAIL:]

    def _counts(self, chunk: bytes) -> bool:
        """Count what the episode wrote; return False once it is too much."""
        self._written += len(chunk)
        if self._written > self.output:
            self._flooded.set()
        return not self._flooded.is_set()

    async def _last_line(self) -> Mapping[str, Any]:
        """Return the report in the last line of a process that ends."""
        assert self._process is not None
        exited = asyncio.create_task(self._process.wait())
        try:
            # A child that holds the output open keeps some versions of asyncio from noticing the end.
            while self._process.returncode is None:
                await asyncio.wait({exited}, timeout=POLL_S)
        finally:
            exited.cancel()
        await self.end()
        last = b""
        while not self._lines.empty():
            last = (self._lines.get_nowait() or b"").strip() or last
        self._check_exit()
        report = _report_in(last)
        if report is None:
            shown = last[:200].decode(errors="replace")
            raise ProgramError(
                f"""its last line is {shown!r}, wanted {{"reward": x}} or {{"rewards": {{"AGENT": x}}}}{self._said()}"""
            )
        return report

    async def _report(self) -> Mapping[str, Any]:
        """Return the first report that a process writes which plays further episodes."""
        assert self._process is not None
        while self._process.returncode is None or not self._lines.empty():
            try:
                line = await asyncio.wait_for(self._lines.get(), POLL_S)
            except TimeoutError:  # a child of a process that has ended may hold the output open
                continue
            if line is None:
                break
            if (report := _report_in(line)) is not None:
                return report
        await self.end()
        self._check_exit()
        raise ProgramError(f"it ended without a reward{self._said()}")

    def _check_exit(self) -> None:
        code = None if self._process is None else self._process.returncode
        if code:
            how = f"exit code {code}" if code > 0 else f"signal {signal.Signals(-code).name}"
            raise ProgramError(f"it ended with {how}{self._said()}")

    def _said(self) -> str:
        text = self._errors.decode(errors="replace").strip()
        return f"; standard error: ...{text[-600:]}" if text else ""

    async def end(self) -> None:
        """Kill the process, its group and what it left, and read what they still wrote."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for _ in range(10):  # what forks while it is killed
            if not (left := list(_holders(self.environment[KEY]))):
                break
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        pumps = [pump for pump in self._pumps if not pump.done()]
        if pumps:
            await asyncio.wait(pumps, timeout=END_S)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), END_S)
        for pump in self._pumps:
            pump.cancel()


def _holders(key: str) -> Iterator[int]:
    """Yield the processes whose environment holds a key; none where the system does not tell."""
    wanted = f"{KEY}={key}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes() and int(folder.name) != os.getpid():
                yield int(folder.name)


def _report_in(line: bytes) -> Mapping[str, Any] | None:
    """Return the report of a line; None for another line."""
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(line)
        if isinstance(found, dict) and ("reward" in found or "rewards" in found or not found):
            return found
    return None


def rewards_of(report: Mapping[str, Any], agents: Sequence[str]) -> tuple[float, Mapping[str, float] | None]:
    """Return the team's reward, and those of single agents where they are told.

    Args:
        report: Report of a program.
        agents: Agents of the team; those without a reward get 0.

    Raises:
        ProgramError: There is no reward, or one of an unknown agent, or one that is no finite number.
    """
    if "rewards" not in report:
        if "reward" not in report:
            raise ProgramError("it ended without a reward")
        return _number("reward", report["reward"]), None
    told = report["rewards"]
    if not isinstance(told, Mapping) or (unknown := sorted(set(told) - set(agents))):
        wanted = f"wanted an object of {', '.join(agents)}"
        raise ProgramError(f"rewards: found {unknown[0] if isinstance(told, Mapping) else told!r:.80}, {wanted}")
    rewards = {agent: _number(f"rewards.{agent}", told.get(agent, 0.0)) for agent in agents}
    team = report["reward"] if "reward" in report else sum(rewards.values()) / len(rewards)
    return _number("reward", team), rewards


def _number(where: str, value: Any) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise ProgramError(f"{where}: found {value!r:.80}, wanted a finite number")
    return float(value)
