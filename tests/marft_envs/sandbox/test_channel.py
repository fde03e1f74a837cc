"""A hostile or dying runner never fools the host, hangs it, or makes it take what it did not ask for."""

import socket
import struct
import threading
import time

import pytest

from marft_envs.sandbox.jail import wire
from marft_envs.sandbox.slot import RunnerChannel, SlotError


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield RunnerChannel(ours), theirs


def soon():
    return time.monotonic() + 0.2


def later():
    return time.monotonic() + 60


def test_an_answer_comes_back(ends):
    channel, theirs = ends
    nonce = channel.send(wire.PUT, b"request", later())
    frame = theirs.recv(100)
    assert frame == wire.pack_frame(wire.PUT, nonce, b"request")
    for piece in (frame[:3], frame[3:15], frame[15:]):
        theirs.sendall(piece)
    assert channel.receive(wire.PUT, nonce, 7, later()) == b"request"


@pytest.mark.parametrize(
    "forge",
    [
        lambda nonce: wire.pack_frame(wire.RUN, nonce + 1, b"x"),
        lambda nonce: wire.pack_frame(wire.PUT, nonce, b"x"),
        lambda nonce: wire.pack_frame(wire.RUN, nonce, b"x" * 11),
        lambda nonce: struct.pack("<IBQ", 2**32 - 1, wire.RUN, nonce),
        lambda nonce: struct.pack("<IBQ", 0, wire.RUN, nonce),
        lambda nonce: bytes(100),
    ],
)
def test_what_is_no_answer_breaks_the_slot(ends, forge):
    channel, theirs = ends
    nonce = channel.send(wire.RUN, b"", later())
    theirs.sendall(forge(nonce))
    with pytest.raises(SlotError, match="out of turn"):
        channel.receive(wire.RUN, nonce, 10, later())


def test_silence_and_death_break_the_slot(ends):
    channel, theirs = ends
    nonce = channel.send(wire.RUN, b"", later())
    with pytest.raises(SlotError, match="in time"):
        channel.receive(wire.RUN, nonce, 10, soon())
    theirs.close()
    with pytest.raises(SlotError, match="gone"):
        channel.receive(wire.RUN, nonce, 10, later())
    with pytest.raises(SlotError, match="gone"):
        channel.send(wire.RUN, b"x" * (1 << 20), later())


def test_both_sides_may_be_full_at_once(ends):
    """The runner answers a request while the next, larger than any buffer, is on its way."""
    channel, theirs = ends
    first = channel.send(wire.RUN, b"", later())
    answer = b"a" * (8 << 20)

    def run() -> None:
        theirs.sendall(wire.pack_frame(wire.RUN, first, answer))
        while theirs.recv(1 << 20):
            pass

    thread = threading.Thread(target=run)
    thread.start()
    channel.send(wire.RUN, b"b" * (8 << 20), later())
    assert channel.receive(wire.RUN, first, len(answer), later()) == answer
    channel.abort()
    thread.join()


def test_abort_wakes_who_waits(ends):
    channel, _ = ends
    threading.Timer(0.1, channel.abort).start()
    with pytest.raises(SlotError, match="gone"):
        channel.receive(wire.RUN, 1, 10, later())
