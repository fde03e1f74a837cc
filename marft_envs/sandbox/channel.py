"""Connection to a runner that sends and receives frames, each with a deadline.

Received data is untrusted. A closed connection, an unknown nonce, an oversized length or a late answer raises
`SlotError`; the jail must not be used any more after it.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable, Sequence

from marft_envs.sandbox.jail import wire

_CHUNK = 1 << 18
_MAX_BUFFER = 2 * wire.MAX_FRAME
_IN, _BOTH = select.POLLIN, select.POLLIN | select.POLLOUT


class SlotError(Exception):
    """A jail failed: it died, or its answer was invalid or late. An infrastructure error, never the program's."""


class Channel:
    """Framed requests and answers over a stream socket.

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
