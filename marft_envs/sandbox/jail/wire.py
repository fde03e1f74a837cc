"""Protocol between the judge (host) and the runner (in the jail): frames over two pipes, and the runner's end of them.

    frame   = u32 length of what follows | u8 op | u64 nonce | payload          (all little-endian)
    answer  = the same, with the op and the nonce of the request

The host sends, the runner answers each request with exactly one frame, in order. The host trusts nothing that
comes back: fixed sizes, hard caps before allocation, no JSON, no pickle. A short read, an unknown nonce, an
oversized length or a late answer makes the host kill the jail. The host's end is `RunnerChannel` in `slot`. Standard
library only: both sides import this module.
"""

import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

VERSION = 1
MAX_FRAME = 160 * 2**20  # bytes; a larger length is a broken or hostile peer

HELLO, PUT, FETCH, RUN, RESET = 1, 2, 3, 4, 5
# HELLO  payload: u32 VERSION                      answer: u32 VERSION | u32 flags (1 = native spawn)
# PUT    payload: u32 mode | u16 n | name | bytes  answer: u8 status; writes /box/NAME, replacing it
# FETCH  payload: u16 n | name                     answer: u8 status | bytes of /box/NAME
# RUN    payload: RunRequest                       answer: RunResult
# RESET  payload: -                                answer: u8 status; kills leftovers, empties /box, next uid
TOGETHER = 4  # answers that the runner holds back at most; the host keeps twice as many requests under way
OK, FAILED = 0, 1  # status; FAILED is followed by a message in UTF-8

HEAD = 2**16  # bytes of a payload that the runner reads at once; arguments and names must fit
_PIECE = 2**18

HEADER = struct.Struct("<IBQ")
_REQUEST = struct.Struct("<BIIIIIHH")
_RESULT = struct.Struct("<BBiQQQQ")

KIND_RUN, KIND_BUILD = 0, 1  # the strict filter without fork and writable path | fork allowed, may write in /box/build

# flags of a result
CPU_LIMIT, WALL_LIMIT, OUTPUT_LIMIT, OOM, LEFTOVERS, THREAD_LIMIT = 1, 2, 4, 8, 16, 32
# status of a result
RAN, NOT_STARTED = 0, 1  # NOT_STARTED: set-up or exec failed; the message is in `stderr`


class RunRequest(NamedTuple):
    """One program run.

    Attributes:
        kind: KIND_RUN or KIND_BUILD.
        cpu_ms: CPU limit, milliseconds.
        wall_ms: Wall time limit, milliseconds.
        memory_kb: RLIMIT_AS; 0 is none.
        output_bytes: RLIMIT_FSIZE and the most stdout that is kept.
        stderr_bytes: The most stderr that is kept (its tail).
        processes: RLIMIT_NPROC for builds; 0 is none.
        argv: Program and arguments.
        stdin: Content of standard input.
    """

    kind: int
    cpu_ms: int
    wall_ms: int
    memory_kb: int
    output_bytes: int
    stderr_bytes: int
    processes: int
    argv: tuple[bytes, ...]
    stdin: bytes


class RunResult(NamedTuple):
    """Result of a run.

    Attributes:
        status: RAN or NOT_STARTED.
        flags: CPU_LIMIT | WALL_LIMIT | OUTPUT_LIMIT | OOM | LEFTOVERS | THREAD_LIMIT.
        exit_status: Exit code; minus the signal number where a signal ended it.
        cpu_us: User and system time of the program, all threads.
        wall_us: From start to end.
        peak_kb: Peak resident memory.
        stdout_total: Bytes written to stdout (what is kept may be less).
        stdout: At most `output_bytes`.
        stderr: The last `stderr_bytes`.
    """

    status: int
    flags: int
    exit_status: int
    cpu_us: int
    wall_us: int
    peak_kb: int
    stdout_total: int
    stdout: bytes
    stderr: bytes


class WireError(ValueError):
    """Error of a peer whose bytes are no frame of this protocol."""


def pack_frame(op: int, nonce: int, payload: bytes) -> bytes:
    """Return the bytes of a frame."""
    return HEADER.pack(len(payload) + HEADER.size - 4, op, nonce) + payload


def pack_put(name: bytes, content: bytes, mode: int) -> bytes:
    """Return the payload of PUT."""
    return struct.pack("<IH", mode, len(name)) + name + content


def unpack_put(payload: bytes) -> tuple[bytes, bytes, int]:
    """Return the name, content and mode of a payload of PUT."""
    mode, length = struct.unpack_from("<IH", payload)
    return payload[6 : 6 + length], payload[6 + length :], mode


def pack_run(request: RunRequest) -> bytes:
    """Return the payload of RUN."""
    head = _REQUEST.pack(*request[:7], len(request.argv))
    arguments = b"".join(struct.pack("<I", len(word)) + word for word in request.argv)
    return head + arguments + request.stdin


def unpack_run(payload: bytes) -> RunRequest:
    """Parse the payload of RUN.

    Raises:
        WireError: The payload is malformed.
    """
    try:
        *numbers, count = _REQUEST.unpack_from(payload)
        place, words = _REQUEST.size, []
        for _ in range(count):
            (length,) = struct.unpack_from("<I", payload, place)
            words.append(payload[place + 4 : place + 4 + length])
            place += 4 + length
    except struct.error as error:
        raise WireError(f"no RUN request: {error}") from error
    if place > len(payload):
        raise WireError("no RUN request: an argument ends beyond the frame")
    return RunRequest(*numbers, tuple(words), payload[place:])  # type: ignore[call-arg]


def pack_result_head(result: RunResult, stdout_bytes: int) -> bytes:
    """Return RUN's answer without its end: `stdout_bytes` of stdout, then stderr; ignores those in `result`."""
    return _RESULT.pack(*result[:7]) + struct.pack("<I", stdout_bytes)


def pack_result(result: RunResult) -> bytes:
    """Return the payload of RUN's answer."""
    return pack_result_head(result, len(result.stdout)) + result.stdout + result.stderr


def unpack_result(payload: bytes, most_stdout: int, most_stderr: int) -> RunResult:
    """Parse the payload of RUN's answer.

    Raises:
        WireError: The payload is malformed, or holds more than was asked for.
    """
    try:
        numbers = _RESULT.unpack_from(payload)
        (length,) = struct.unpack_from("<I", payload, _RESULT.size)
    except struct.error as error:
        raise WireError(f"no RUN answer: {error}") from error
    start = _RESULT.size + 4
    stdout, stderr = payload[start : start + length], payload[start + length :]
    if len(stdout) != length or length > most_stdout or len(stderr) > most_stderr:
        raise WireError(f"no RUN answer: {len(stdout)} + {len(stderr)} bytes of output")
    return RunResult(*numbers, stdout, stderr)  # type: ignore[call-arg]


class Frame(NamedTuple):
    """Request from the host.

    Attributes:
        op: Operation code, HELLO to RESET.
        nonce: Number that the answer repeats.
        head: The payload, or its first `HEAD` bytes; `HostChannel.rest` yields the following ones.
    """

    op: int
    nonce: int
    head: bytes


class Slice(NamedTuple):
    """Part of an open file that goes into an answer."""

    descriptor: int
    start: int
    length: int


class HostChannel:
    """Connection of the runner to the host: reads requests and writes answers.

    Large payloads are copied in pieces. The peak memory that the kernel reports of a program starts at the most that
    the runner itself ever held. A runner that held a 64 MB input would make every later program look that big.

    Short answers are sent together, as each write wakes the host and an engine's processes between us. No answer is
    held back while we wait for the host, or for a program that takes long.

    Args:
        source: Descriptor to read.
        sink: Descriptor to write.
    """

    def __init__(self, source: int, sink: int) -> None:
        self.source, self._sink = source, sink
        self._buffer = b""  # read ahead
        self._answers, self._held_back = b"", 0
        self._left = 0  # bytes of the current payload not yet read

    def receive(self) -> Frame | None:
        """Return the next request; None if the host has closed its end.

        Raises:
            WireError: The host sent something else.
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
        return Frame(op, nonce, self._exactly(take))

    def rest(self) -> Iterator[bytes]:
        """Yield the bytes after the head of the current payload, in pieces."""
        while self._left:
            piece = self._buffer[: self._left] or self._read(min(self._left, _PIECE))
            if not piece:
                raise WireError(f"the host went away {self._left} bytes before the end of a request")
            self._buffer = self._buffer[len(piece) :]
            self._left -= len(piece)
            yield piece

    def answer(self, request: Frame, payload: bytes, *slices: Slice) -> None:
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
        """Write the answers that were held back so far."""
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
    """Write all bytes, however many calls that takes."""
    while data:
        data = data[os.write(descriptor, data) :]
