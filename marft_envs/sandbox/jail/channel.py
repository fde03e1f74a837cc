"""The runner's end of the two pipes: frames in, frames out, large payloads copied in pieces, short answers together.

In pieces because the peak memory that the kernel reports of a program starts at what the runner itself ever held:
a runner that held a 64 MB input would make every later program look that big.

Together because each write wakes the host, and an engine's processes between us. No answer is held back while we wait
for the host, or for a program that takes long.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

from .wire import HEADER, HELLO, MAX_FRAME, RESET, TOGETHER, WireError

HEAD = 2**16  # bytes of a payload that are read at once; arguments and names must fit
_PIECE = 2**18


class Request(NamedTuple):
    """A frame that came in.

    Attributes:
        op: What is asked.
        nonce: To be given back.
        head: The payload, or its first `HEAD` bytes; `Channel.rest` gives what follows.
    """

    op: int
    nonce: int
    head: bytes


class Slice(NamedTuple):
    """Bytes of a file that go into an answer."""

    descriptor: int
    start: int
    length: int


class Channel:
    """Reads requests and writes answers.

    Args:
        source: Descriptor to read.
        sink: Descriptor to write.
    """

    def __init__(self, source: int, sink: int) -> None:
        self.source, self._sink = source, sink
        self._buffer = b""  # what came with an earlier read
        self._answers, self._held_back = b"", 0
        self._left = 0  # bytes of the current payload not yet read

    def receive(self) -> Request | None:
        """Return the next request; None where the host has closed its end.

        Raises:
            WireError: What came is no request.
        """
        if self._left:
            raise WireError(f"{self._left} bytes of the last request were not wanted")
        if not self._buffer:
            self._buffer = self._read(HEADER.size + HEAD)
            if not self._buffer:
                return None
        length, op, nonce = HEADER.unpack(self._exactly(HEADER.size))
        if not (HEADER.size - 4 <= length <= MAX_FRAME and HELLO <= op <= RESET):
            raise WireError(f"found length {length} and op {op}, wanted a frame")
        self._left = length - (HEADER.size - 4)
        take = min(self._left, HEAD)
        self._left -= take
        return Request(op, nonce, self._exactly(take))

    def rest(self) -> Iterator[bytes]:
        """Yield what follows the head of the current payload."""
        while self._left:
            piece = self._buffer[: self._left] or self._read(min(self._left, _PIECE))
            if not piece:
                raise WireError(f"the host went away {self._left} bytes before the end of a request")
            self._buffer = self._buffer[len(piece) :]
            self._left -= len(piece)
            yield piece

    def answer(self, request: Request, payload: bytes, *slices: Slice) -> None:
        """Answer a request: the payload, then the slices; the answer may wait for others (see `flush`).

        Raises:
            WireError: A file has become shorter meanwhile.
        """
        length = len(payload) + sum(part.length for part in slices)
        self._answers += HEADER.pack(length + HEADER.size - 4, request.op, request.nonce) + payload
        self._held_back += 1
        for part in slices:
            place, end = part.start, part.start + part.length
            while place < end:
                piece = os.pread(part.descriptor, min(end - place, _PIECE), place)  # mmap could fault
                if not piece:
                    raise WireError(f"a file ended {end - place} bytes early")
                place += len(piece)
                self._answers += piece
                if len(self._answers) > HEAD:
                    self.flush()
        if self._held_back >= TOGETHER:
            self.flush()

    def flush(self) -> None:
        """Write the answers that were held back."""
        if self._answers:
            write_all(self._sink, self._answers)
        self._answers, self._held_back = b"", 0

    def _read(self, most: int) -> bytes:
        self.flush()
        return os.read(self.source, most)

    def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            piece = self._read(HEADER.size + HEAD - len(self._buffer))
            if not piece:
                raise WireError(f"the host went away {count - len(self._buffer)} bytes before the end of a request")
            self._buffer += piece
        data, self._buffer = self._buffer[:count], self._buffer[count:]
        return data


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it."""
    while data:
        data = data[os.write(descriptor, data) :]
