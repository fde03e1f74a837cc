"""A slot: one jail that runs one program at a time, spoken to through its runner."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, Self

from marft_envs.sandbox.channel import Channel, SlotError
from marft_envs.sandbox.jail import wire
from marft_envs.sandbox.jail.wire import RunRequest, RunResult
from marft_envs.sandbox.ruling import BUILD_FILE_MB

# What a build may leave: all that its file limit lets it write, or a large product would look like a jail that failed.
MAX_PRODUCT_BYTES = (BUILD_FILE_MB << 20) + 1
GRACE_S = 10.0  # for the runner's own work and the carrier, on a busy machine
START_S = 60.0
_BYTES_PER_S = 10e6  # the slowest carrier, for deadlines
_WINDOW = 2 * wire.TOGETHER  # requests under way: the runner starts the next tests while we compare the last
_SMALL = 1 << 15  # a larger input goes alone


class Slot(Protocol):
    """What the judge needs of a jail. Every method raises `SlotError` when the jail failed.

    Attributes:
        places: Where things are in the jail: `box`, and the tools there are of `python`, `c++`, `headers`.
    """

    places: Mapping[str, str]

    def put(self, name: str, content: bytes, mode: int) -> None:
        """Write a file of the box, replacing it."""

    def build(self, request: RunRequest, product: str, files: Mapping[str, bytes]) -> tuple[RunResult, bytes]:
        """Run a build over some files; return what became of it, and the product where it left one."""

    def run_all(self, requests: Sequence[RunRequest], ahead: bool) -> Iterator[RunResult]:
        """Run programs one after the other; `ahead` lets the next start before its turn is asked for."""

    def reset(self) -> None:
        """Forget everything: no process, no file is left, the next program has another uid."""

    def ran_out_of_memory(self) -> bool:
        """Return True if the jail failed because the memory that it has for itself ran out; ask before `close`."""

    def abort(self) -> None:
        """End the jail at once; usable from any thread."""

    def close(self) -> None:
        """End the jail and collect what is left of it."""


class Jail(Protocol):
    """What a runner lives in: a container or a process."""

    def ran_out_of_memory(self) -> bool:
        """Return True if the kernel ended the runner because the jail's memory ran out."""

    def kill(self) -> None:
        """End it; may be called twice and from any thread, never raises."""

    def last_words(self) -> str:
        """Return the end of the runner's log."""

    def release(self) -> None:
        """Close what belongs to it on this side."""


class RunnerSlot:
    """A jail whose runner does everything itself.

    Args:
        jail: Where the runner lives.
        channel: To the runner.
        places: See `Slot`.
    """

    def __init__(self, jail: Jail, channel: Channel, places: Mapping[str, str]) -> None:
        self.places = places
        self._jail = jail
        self._channel = channel
        self._met = False

    def greet(self) -> Self:
        """Wait until the runner answers, the first time; return the slot.

        Raises:
            SlotError: It does not; then the slot is closed.
        """
        if not self._met:
            try:
                self._say_hello()
            except BaseException:
                self.close()
                raise
            self._met = True
        return self

    def put(self, name: str, content: bytes, mode: int) -> None:
        """Write a file of the box, replacing it."""
        answer = self._ask(wire.PUT, wire.pack_put(name.encode(), content, mode), 1 << 12)
        _check_status(answer, f"PUT {name}")

    def build(self, request: RunRequest, product: str, files: Mapping[str, bytes]) -> tuple[RunResult, bytes]:
        """Run a build over some files; return what became of it, and the product where it left one."""
        for name, content in files.items():
            self.put(name, content, 0o444)
        return self.build_here(request, product)

    def build_here(self, request: RunRequest, product: str) -> tuple[RunResult, bytes]:
        """Run a build over the files that are there already."""
        (result,) = self.run_all([request], ahead=False)
        return result, self._fetch(f"build/{product}") if result.exit_status == 0 else b""

    def run_all(self, requests: Sequence[RunRequest], ahead: bool) -> Iterator[RunResult]:
        """Run programs one after the other; `ahead` lets the next start before its turn is asked for."""
        nonces: list[int] = []
        for turn, request in enumerate(requests):
            # Several go at once: each write wakes the runner, and an engine's processes between us.
            if len(nonces) - turn <= (_WINDOW - wire.TOGETHER if ahead else 0):
                following = requests[len(nonces) : turn + _WINDOW if ahead else turn + 1]
                large = (place for place, each in enumerate(following) if len(each.stdin) > _SMALL)
                count = next(large, len(following))
                if len(nonces) == turn:
                    count = max(count, 1)
                nonces += self._send_all(wire.RUN, [wire.pack_run(each) for each in following[:count]])
            yield self._receive_run(request, nonces[turn])

    def reset(self) -> None:
        """Forget everything: no process, no file is left, the next program has another uid."""
        _check_status(self._ask(wire.RESET, b"", 1 << 12), "RESET")

    def ran_out_of_memory(self) -> bool:
        """Return True if the jail failed because the memory that it has for itself ran out; ask before `close`."""
        return self._jail.ran_out_of_memory()

    def abort(self) -> None:
        """End the jail at once; usable from any thread."""
        self._channel.abort()
        self._jail.kill()

    def close(self) -> None:
        """End the jail and collect what is left of it."""
        self._jail.kill()
        self._channel.close()
        self._jail.release()

    def _say_hello(self) -> None:
        try:
            (nonce,) = self._send_all(wire.HELLO, [struct.pack("<I", wire.VERSION)])
            answer = self._channel.receive(wire.HELLO, nonce, 64, time.monotonic() + START_S)
            if len(answer) != 8 or struct.unpack("<II", answer)[0] != wire.VERSION:
                raise SlotError(f"the runner speaks another protocol: {answer!r}")
        except SlotError as error:
            words = self._jail.last_words().strip().splitlines()[-1:]
            raise SlotError("; the runner says: ".join([f"no jail: {error}", *words])) from error

    def _fetch(self, name: str) -> bytes:
        answer = self._ask(wire.FETCH, struct.pack("<H", len(name)) + name.encode(), MAX_PRODUCT_BYTES + 1)
        return answer[1:] if answer[:1] == b"\0" else b""

    def _receive_run(self, request: RunRequest, nonce: int) -> RunResult:
        most = request.output_bytes + request.stderr_bytes
        late = time.monotonic() + request.wall_ms / 1000 + GRACE_S + (most + len(request.stdin)) / _BYTES_PER_S
        payload = self._channel.receive(wire.RUN, nonce, most + 256, late)
        try:
            result = wire.unpack_result(payload, request.output_bytes, request.stderr_bytes)
        except wire.WireError as error:
            raise SlotError(str(error)) from error
        if result.status != wire.RAN:
            raise SlotError(f"the program was not started: {result.stderr.decode(errors='replace')}")
        return result

    def _ask(self, op: int, payload: bytes, most: int) -> bytes:
        (nonce,) = self._send_all(op, [payload])
        return self._channel.receive(op, nonce, most, time.monotonic() + GRACE_S + most / _BYTES_PER_S)

    def _send_all(self, op: int, payloads: Sequence[bytes]) -> range:
        # What is sent ahead waits behind programs that still run, so a full pipe is no sign of trouble by itself.
        return self._channel.send_all(op, payloads, time.monotonic() + 3600)


def _check_status(answer: bytes, what: str) -> None:
    if answer[:1] != b"\0":
        raise SlotError(f"{what}: {answer[1:].decode(errors='replace')}")
