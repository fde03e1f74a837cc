"""Slot of the judge: one jail that runs one program at a time, and the connection to its runner."""

from __future__ import annotations

import contextlib
import itertools
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, Self

from marft_envs.sandbox.jail import wire
from marft_envs.sandbox.jail.wire import RunRequest, RunResult

# Limit on the files of a build, and the largest product: a larger one would look like a failed jail.
BUILD_FILE_MB = 32
MAX_PRODUCT_BYTES = (BUILD_FILE_MB << 20) + 1
GRACE_S = 10.0  # for the runner's own work and the carrier on a busy machine
START_S = 60.0
_BYTES_PER_S = 10e6  # rate of the slowest carrier, for deadlines
_WINDOW = 2 * wire.TOGETHER  # requests in flight: the runner starts the next tests while we compare the last
_SMALL = 1 << 15  # larger inputs are sent alone
_CHUNK = 1 << 18
_MAX_BUFFER = 2 * wire.MAX_FRAME
_IN, _BOTH = select.POLLIN, select.POLLIN | select.POLLOUT


class SlotError(Exception):
    """A jail failed: it died, or its answer was invalid or late. An infrastructure error, never the program's."""


class Slot(Protocol):
    """Interface of a jail for the judge; every method raises `SlotError` if the jail failed.

    Attributes:
        places: Paths in the jail: `box`, and the installed ones of `python`, `c++` and `headers`.
    """

    places: Mapping[str, str]

    def put(self, name: str, content: bytes, mode: int) -> None:
        """Write a file to the box, replacing an existing one."""

    def build(self, request: RunRequest, product: str, files: Mapping[str, bytes]) -> tuple[RunResult, bytes]:
        """Run a build on some files; return its result and the product, empty if there is none."""

    def run_all(self, requests: Sequence[RunRequest], ahead: bool) -> Iterator[RunResult]:
        """Run programs in order; with `ahead` the next may start before its result is requested."""

    def reset(self) -> None:
        """Reset the jail: kill all processes, remove all files, and change the user id of the next program."""

    def ran_out_of_memory(self) -> bool:
        """True if the jail failed because its own memory ran out; call before `close`."""

    def abort(self) -> None:
        """Kill the jail at once, from any thread."""

    def close(self) -> None:
        """Kill the jail and release its resources."""


class Jail(Protocol):
    """Container or process of a runner."""

    def ran_out_of_memory(self) -> bool:
        """True if the kernel killed the runner because the jail's memory ran out."""

    def kill(self) -> None:
        """Kill the jail; idempotent, from any thread, without exceptions."""

    def last_words(self) -> str:
        """Return the last bytes of the runner's log."""

    def release(self) -> None:
        """Close the resources of the jail on our side."""


class RunnerSlot:
    """Slot whose jail is managed entirely by its runner.

    Args:
        jail: Container or process of the runner.
        channel: Connection to the runner.
        places: Paths in the jail, as in `Slot`.
    """

    def __init__(self, jail: Jail, channel: RunnerChannel, places: Mapping[str, str]) -> None:
        self.places = places
        self._jail = jail
        self._channel = channel
        self._met = False

    def greet(self) -> Self:
        """Wait for the first answer of the runner; return the slot.

        Raises:
            SlotError: The runner does not answer; the slot is then closed.
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
        """Write a file to the box, replacing an existing one."""
        answer = self._ask(wire.PUT, wire.pack_put(name.encode(), content, mode), 1 << 12)
        _check_status(answer, f"PUT {name}")

    def build(self, request: RunRequest, product: str, files: Mapping[str, bytes]) -> tuple[RunResult, bytes]:
        """Run a build on some files; return its result and the product, empty if there is none."""
        for name, content in files.items():
            self.put(name, content, 0o444)
        return self.build_here(request, product)

    def build_here(self, request: RunRequest, product: str) -> tuple[RunResult, bytes]:
        """Run a build on the files that are already in the box."""
        (result,) = self.run_all([request], ahead=False)
        if result.exit_status:
            return result, b""
        name = f"build/{product}".encode()
        answer = self._ask(wire.FETCH, struct.pack("<H", len(name)) + name, MAX_PRODUCT_BYTES + 1)
        return result, answer[1:] if answer[:1] == b"\0" else b""

    def run_all(self, requests: Sequence[RunRequest], ahead: bool) -> Iterator[RunResult]:
        """Run programs in order; with `ahead` the next may start before its result is requested."""
        nonces: list[int] = []
        for turn, request in enumerate(requests):
            # Requests are sent in batches, as each write wakes the runner and the engine's processes between.
            in_flight = len(nonces) - turn
            if in_flight <= (_WINDOW - wire.TOGETHER if ahead else 0):
                following = requests[len(nonces) : turn + (_WINDOW if ahead else 1)]
                batch = list(itertools.takewhile(lambda each: len(each.stdin) <= _SMALL, following))
                if in_flight == 0 and not batch:
                    batch = [request]
                nonces += self._send_all(wire.RUN, [wire.pack_run(each) for each in batch])
            yield self._receive_run(request, nonces[turn])

    def reset(self) -> None:
        """Reset the jail: kill all processes, remove all files, and change the user id of the next program."""
        _check_status(self._ask(wire.RESET, b"", 1 << 12), "RESET")

    def ran_out_of_memory(self) -> bool:
        """True if the jail failed because its own memory ran out; call before `close`."""
        return self._jail.ran_out_of_memory()

    def abort(self) -> None:
        """Kill the jail at once, from any thread."""
        self._channel.abort()
        self._jail.kill()

    def close(self) -> None:
        """Kill the jail and release its resources."""
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
        # Requests sent ahead wait behind running programs, so a full pipe alone is not a failure.
        return self._channel.send_all(op, payloads, time.monotonic() + 3600)


def _check_status(answer: bytes, what: str) -> None:
    if answer[:1] != b"\0":
        raise SlotError(f"{what}: {answer[1:].decode(errors='replace')}")


class RunnerChannel:
    """Connection to a runner: framed requests and answers over a stream socket, each with a deadline.

    Received data is untrusted. A closed connection, an unknown nonce, an oversized length or a late answer raises
    `SlotError`; the jail must not be used any more after it.

    Args:
        stream: Socket connected to the runner's descriptors 0 and 1.
        unwrap: Removes the framing of a carrier, such as Docker, from received bytes; None if there is none.
    """

    def __init__(self, stream: socket.socket, unwrap: Callable[[bytes], bytes] | None = None) -> None:
        stream.setblocking(False)
        self._stream = stream
        self._unwrap = unwrap
        self._buffer = bytearray()
        self._poll = select.poll()
        self._nonce = int.from_bytes(time.time_ns().to_bytes(8, "little")[:6], "little") << 8

    def send(self, op: int, payload: bytes, deadline: float) -> int:
        """Send a request; return its nonce."""
        return self.send_all(op, [payload], deadline)[0]

    def send_all(self, op: int, payloads: Sequence[bytes], deadline: float) -> range:
        """Send several requests together and return their nonces; reads while writing, as both pipes may be full."""
        nonces = range(self._nonce + 1, self._nonce + 1 + len(payloads))
        self._nonce += len(payloads)
        frames = (wire.pack_frame(op, nonce, payload) for nonce, payload in zip(nonces, payloads, strict=True))
        rest = memoryview(b"".join(frames))
        while rest:
            try:
                rest = rest[self._stream.send(rest[:_CHUNK]) :]
            except BlockingIOError:
                if self._wait(_BOTH, deadline) & ~select.POLLOUT:
                    self._fill()
            except OSError as error:
                raise SlotError(f"the runner is gone: {error}") from error
        return nonces

    def receive(self, op: int, nonce: int, most: int, deadline: float) -> bytes:
        """Return the payload of the answer to a request.

        Args:
            op: Operation code of the request.
            nonce: Nonce of the request.
            most: Largest accepted payload in bytes.
            deadline: Time of `time.monotonic`, in seconds.
        """
        header = wire.HEADER
        self._need(header.size, deadline)
        length, found_op, found_nonce = header.unpack_from(self._buffer)
        size = length + 4 - header.size
        if (found_op, found_nonce) != (op, nonce) or not 0 <= size <= most:
            raise SlotError(f"the runner answered out of turn: op {found_op}, {size} bytes")
        self._need(header.size + size, deadline)
        payload = bytes(memoryview(self._buffer)[header.size : header.size + size])
        del self._buffer[: header.size + size]
        return payload

    def abort(self) -> None:
        """Break the connection from any thread; waiting threads get a `SlotError`."""
        with contextlib.suppress(OSError):
            self._stream.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket."""
        self._stream.close()

    def _need(self, size: int, deadline: float) -> None:
        while len(self._buffer) < size:
            self._wait(_IN, deadline)
            self._fill()

    def _wait(self, events: int, deadline: float) -> int:
        self._poll.register(self._stream, events)
        ready = self._poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
        if not ready:
            raise SlotError("the runner did not answer in time")
        return ready[0][1]

    def _fill(self) -> None:
        try:
            chunk = self._stream.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            raise SlotError(f"the runner is gone: {error}") from error
        if not chunk:
            raise SlotError("the runner is gone: it closed the connection")
        self._buffer += chunk if self._unwrap is None else self._unwrap(chunk)
        if len(self._buffer) > _MAX_BUFFER:
            raise SlotError("the runner sent more than was asked for")
