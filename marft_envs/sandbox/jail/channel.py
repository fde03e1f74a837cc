"""The runner's end of the two pipes: frames in, frames out, large payloads copied in pieces.

In pieces because the peak memory that the kernel reports of a program starts at what the runner itself ever held:
a runner that held a 64 MB input would make every later program look that big.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

from .wire import HEADER, HELLO, MAX_FRAME, RESET, WireError

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
        self._left = 0  # bytes of the current payload not yet read

    def receive(self) -> Request | None:
        """Return the next request; None where the host has closed its end.

        Raises:
            WireError: What came is no request.
        """
        if self._left:
            raise WireError(f"{self._left} bytes of the last request were not wanted")
        first = os.read(self.source, HEADER.size)
        if not first:
            return None
        length, op, nonce = HEADER.unpack(first + self._exactly(HEADER.size - len(first)))
        if not (HEADER.size - 4 <= length <= MAX_FRAME and HELLO <= op <= RESET):
            raise WireError(f"found length {length} and op {op}, wanted a frame")
        self._left = length - (HEADER.size - 4)
        take = min(self._left, HEAD)
        self._left -= take
        return Request(op, nonce, self._exactly(take))

    def rest(self) -> Iterator[bytes]:
        """Yield what follows the head of the current payload."""
        while self._left:
            piece = os.read(self.source, min(self._left, _PIECE))
            if not piece:
                raise WireError(f"the host went away {self._left} bytes before the end of a request")
            self._left -= len(piece)
            yield piece

    def answer(self, request: Request, payload: bytes, *slices: Slice) -> None:
        """Answer a request: the payload, then the slices.

        Raises:
            WireError: A file has become shorter meanwhile.
        """
        length = len(payload) + sum(part.length for part in slices)
        write_all(self._sink, HEADER.pack(length + HEADER.size - 4, request.op, request.nonce) + payload)
        for part in slices:
            place, end = part.start, part.start + part.length
            while place < end:
                piece = os.pread(part.descriptor, min(end - place, _PIECE), place)  # mmap could fault
                if not piece:
                    raise WireError(f"a file ended {end - place} bytes early")
                write_all(self._sink, piece)
                place += len(piece)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = os.read(self.source, count - len(data))
            if not piece:
                raise WireError(f"the host went away {count - len(data)} bytes before the end of a request")
            data += piece
        return data


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it."""
    while data:
        data = data[os.write(descriptor, data) :]
