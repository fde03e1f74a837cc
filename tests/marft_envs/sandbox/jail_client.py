"""Speaks to a runner over pipes, as the judge does: for the tests of `marft_envs.sandbox.jail`."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from marft_envs.sandbox.host_machine import find_shown, slot_uids
from marft_envs.sandbox.jail import landlock, spawn, wire
from marft_envs.sandbox.jail.wire import RunRequest, RunResult
from marft_envs.sandbox.local_runner import landlock_options

NOBODY, FIRST_UID = slot_uids(62)[0], slot_uids(63)[0]  # this process's own: nobody else's tests see them
SOURCE = Path(landlock.__file__).parent
ROOT = os.geteuid() == 0
SYSTEM_PYTHON = next(p for p in ("/usr/bin/python3", "/usr/local/bin/python3", sys.executable) if os.path.exists(p))

needs_landlock = pytest.mark.skipif(landlock.abi() == 0, reason="this kernel has no Landlock")
needs_root = pytest.mark.skipif(not ROOT, reason="changing uids takes root")

# what runs as root and drops each program to a uid of its own, what has the uid of its programs, and what has root only
CARRIERS = (
    pytest.param("landlock", marks=needs_landlock),
    pytest.param("landlock-same-uid", marks=(needs_landlock, pytest.mark.attacks)),
    pytest.param("uid", marks=(needs_root, pytest.mark.attacks)),
)


class JailClient:
    """A runner in a box of its own.

    Args:
        carrier: An isolation mode; `landlock-same-uid` starts the runner as nobody where we are root.
        native: Whether it starts programs by spawn.c.
        options: Its options instead of those of the carrier.
        landlock_abi: The version of Landlock that it takes the kernel for; None is the kernel's.
        root: Whether its folder is the root of programs.
        wrapper: Words before its command line.
    """

    def __init__(
        self,
        carrier: str,
        *,
        native: bool = False,
        options: Sequence[str] | None = None,
        landlock_abi: int | None = None,
        root: bool = False,
        wrapper: Sequence[str] = (),
    ) -> None:
        self._landlock_abi, self._root = landlock_abi, root
        self.folder = Path(tempfile.mkdtemp(prefix="jail-test-"))
        self.folder.chmod(0o755)
        self.box = self.folder / "box"
        self.box.mkdir(mode=0o755)
        if root:
            (self.folder / "dev").mkdir()
        user = NOBODY if carrier == "landlock-same-uid" and ROOT else None
        if user is not None:
            os.chown(self.box, user, user)
        shutil.copytree(SOURCE, self.folder / "jail", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        if native:
            compile_native(self.folder / "jail")
        self.log = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [*wrapper, *self._command(carrier, options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            pass_fds=[self.log.fileno()],  # a careless host's, which no program may see
            user=user,
            group=user,
        )
        self._nonces = itertools.count(7_000_000_000)

    def _command(self, carrier: str, options: Sequence[str] | None) -> list[str]:
        start = f"import sys; sys.path.insert(0, {str(self.folder)!r}); from jail.runner import main; "
        if self._landlock_abi is not None:
            start += f"from jail import landlock; landlock.abi = lambda: {self._landlock_abi}; "
        start += "main()"
        mode = carrier.removesuffix("-same-uid")
        uids = ["--uids", f"{FIRST_UID}:{FIRST_UID + 3}"] if ROOT and carrier in ("landlock", "uid") else []
        shown = landlock_options(find_shown({"python": SYSTEM_PYTHON})) if mode == "landlock" else []
        given = ["--isolation", mode, *uids, *shown] if options is None else list(options)
        given += ["--root", str(self.folder)] if self._root else []
        return [SYSTEM_PYTHON, "-I", "-S", "-B", "-c", start, "--box", str(self.box), *given]

    def __enter__(self) -> JailClient:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
            self.process.wait(timeout=60)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.log.close()
            shutil.rmtree(self.folder)

    def send(self, op: int, payload: bytes = b"") -> int:
        nonce = next(self._nonces)
        self.process.stdin.write(wire.pack_frame(op, nonce, payload))
        self.process.stdin.flush()
        return nonce

    def receive(self, op: int, nonce: int) -> bytes:
        head = self.process.stdout.read(wire.HEADER.size)
        assert len(head) == wire.HEADER.size, f"the runner has ended: {self.last_words()}"
        length, *found = wire.HEADER.unpack(head)
        assert found == [op, nonce]
        return self.process.stdout.read(length - (wire.HEADER.size - 4))

    def ask(self, op: int, payload: bytes = b"") -> bytes:
        return self.receive(op, self.send(op, payload))

    def last_words(self) -> str:
        self.process.wait(timeout=60)
        self.log.seek(0)
        return self.log.read().decode()

    def hello(self) -> tuple[int, ...]:
        return struct.unpack("<II", self.ask(wire.HELLO, struct.pack("<I", wire.VERSION)))

    def put(self, name: str, content: bytes, mode: int = 0o444) -> bytes:
        return self.ask(wire.PUT, wire.pack_put(name.encode(), content, mode))

    def fetch(self, name: str) -> bytes:
        return self.ask(wire.FETCH, struct.pack("<H", len(name)) + name.encode())

    def reset(self) -> bytes:
        return self.ask(wire.RESET)

    def run(self, *argv: str | Path, stdin: bytes = b"", kind: int = wire.KIND_RUN, **limits: int) -> RunResult:
        request = run_request(*argv, stdin=stdin, kind=kind, **limits)
        payload = self.ask(wire.RUN, wire.pack_run(request))
        return wire.unpack_result(payload, request.output_bytes, request.stderr_bytes)

    def build(self, *argv: str | Path, **limits: int) -> RunResult:
        generous = {
            "cpu_ms": 30_000,
            "wall_ms": 90_000,
            "memory_kb": 2 << 20,
            "output_bytes": 64 << 20,
            "processes": 32,
        }
        return self.run(*argv, kind=wire.KIND_BUILD, **generous | limits)

    def python(self, program: str, stdin: bytes = b"", **limits: int) -> RunResult:
        assert self.put("main.py", program.encode()) == bytes([wire.OK])
        return self.run(SYSTEM_PYTHON, "-I", "-S", self.box / "main.py", stdin=stdin, **limits)

    def program(self, binary: Path, *words: str, stdin: bytes = b"", **limits: int) -> RunResult:
        assert self.put("main", binary.read_bytes(), 0o555) == bytes([wire.OK])
        return self.run(self.box / "main", *words, stdin=stdin, **limits)

    def left(self) -> list[str]:
        """Return the processes that the runner has below it, or that have a uid of its range."""
        found = []
        for folder in Path("/proc").iterdir():
            try:
                told = (folder / "stat").read_text()
                parent = int(told.rpartition(")")[2].split()[1])
                uid = folder.stat().st_uid
            except (OSError, ValueError, NotADirectoryError):
                continue
            if parent == self.process.pid or FIRST_UID <= uid < FIRST_UID + 4:
                found.append(told)
        return found


def run_request(*argv: str | Path, stdin: bytes = b"", kind: int = wire.KIND_RUN, **limits: int) -> RunRequest:
    """Return a request with limits that an honest small program keeps."""
    numbers = {"cpu_ms": 5000, "wall_ms": 60_000, "memory_kb": 512 << 10, "output_bytes": 1 << 20}
    numbers |= {"stderr_bytes": 4096, "processes": 0} | limits
    return RunRequest(kind=kind, argv=tuple(os.fsencode(word) for word in argv), stdin=stdin, **numbers)


def compile_native(folder: Path) -> None:
    """Make the library of spawn.c in the folder of a runner."""
    (folder / spawn.LIBRARY).write_bytes(_library())


def compile_cpp(source: str, target: Path, *options: str) -> Path:
    """Return the program of a C++ source."""
    target.write_bytes(_program(source, options))
    target.chmod(0o755)
    return target


@cache  # for all carriers
def _library() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(SOURCE / "spawn.c", folder)
        subprocess.run(spawn.COMPILE, cwd=folder, check=True)
        return Path(folder, spawn.LIBRARY).read_bytes()


@cache
def _program(source: str, options: tuple[str, ...]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        command = ["g++", "-O1", "-x", "c++", "-", "-o", "a", *options]
        subprocess.run(command, cwd=folder, input=source.encode(), check=True)
        return Path(folder, "a").read_bytes()


def open_client(carrier: str) -> Iterator[JailClient]:
    """Yield a client, for fixtures; every test leaves it without processes."""
    with JailClient(carrier) as client:
        yield client
