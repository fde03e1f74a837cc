"""The runner's side of the wire: what it answers, and that whatever is no request ends it and all it started."""

from __future__ import annotations

import contextlib
import os
import struct
import time

import pytest

from marft_envs.sandbox.jail import wire
from marft_envs.sandbox.jail.wire import HostChannel
from tests.marft_envs.sandbox.interruption import is_running
from tests.marft_envs.sandbox.jail_client import CARRIERS, SYSTEM_PYTHON, JailClient, open_client, run_request


@pytest.fixture(params=[*CARRIERS, "none"])
def jail(request):
    yield from open_client(request.param)


def test_hello_tells_version_and_way_to_start(jail):
    assert jail.hello() == (wire.VERSION, 0)


def test_answers_come_in_order_each_with_its_nonce(jail):
    jail.put("main.py", b"print(input())")
    words = (SYSTEM_PYTHON, "-I", "-S", jail.box / "main.py")
    requests = [run_request(*words, stdin=b"%d" % i) for i in range(6)]
    nonces = [jail.send(wire.RUN, wire.pack_run(request)) for request in requests]
    for i, (request, nonce) in enumerate(zip(requests, nonces, strict=True)):
        payload = jail.receive(wire.RUN, nonce)
        result = wire.unpack_result(payload, request.output_bytes, request.stderr_bytes)
        assert result.stdout == b"%d\n" % i


def test_no_answer_waits_for_a_long_program(jail):
    jail.put("main.py", b"import time; time.sleep(float(input()))")
    words = (SYSTEM_PYTHON, "-I", "-S", jail.box / "main.py")
    requests = [run_request(*words, stdin=seconds, wall_ms=60_000) for seconds in (b"0", b"30")]
    frames = [wire.pack_frame(wire.RUN, nonce, wire.pack_run(each)) for nonce, each in enumerate(requests)]
    start = time.monotonic()
    jail.process.stdin.write(b"".join(frames))
    jail.process.stdin.flush()
    assert jail.receive(wire.RUN, 0)
    assert time.monotonic() - start < 25


def test_short_answers_go_together_and_none_is_held_back_while_the_runner_waits():
    (requests_in, requests), (answers, answers_out) = os.pipe(), os.pipe()
    try:
        channel = HostChannel(requests_in, answers_out)
        os.set_blocking(answers, False)
        os.write(requests, b"".join(wire.pack_frame(wire.RESET, nonce, b"") for nonce in range(9)))
        sizes = []
        for nonce in range(9):
            request = channel.receive()
            assert (request.op, request.nonce) == (wire.RESET, nonce)
            channel.answer(request, b"\0")
            with contextlib.suppress(BlockingIOError):
                sizes.append(len(os.read(answers, 1000)))
        assert sizes == [wire.TOGETHER * 14] * 2
        os.close(requests)
        assert channel.receive() is None
        assert os.read(answers, 1000) == wire.pack_frame(wire.RESET, 8, b"\0")
    finally:
        for end in (requests_in, answers, answers_out):
            os.close(end)


def test_files_come_back_as_they_were_sent(jail):
    content = os.urandom(3 << 20)
    assert jail.put("data-1.bin", content, 0o555) == b"\0"
    assert jail.fetch("data-1.bin") == b"\0" + content
    assert (jail.box / "data-1.bin").stat().st_mode & 0o7777 == 0o555
    assert jail.put("data-1.bin", b"new", 0o6777) == b"\0"
    assert jail.fetch("data-1.bin") == b"\0new"
    assert (jail.box / "data-1.bin").stat().st_mode & 0o7777 == 0o755
    assert jail.fetch("other")[0] == wire.FAILED


@pytest.mark.parametrize(
    "name", ["", "..", "../x", "/tmp/x", "a/b", "build/../x", "build/", ".x", "a\0b", "a b", "x" * 200]
)
def test_odd_names_are_refused_and_nothing_is_lost(jail, name):
    answer = jail.put(name, bytes(200_000))
    assert answer[0] == wire.FAILED
    assert b"wanted NAME or build/NAME" in answer
    assert jail.fetch(name)[0] == wire.FAILED
    assert jail.hello() == (wire.VERSION, 0)


def test_links_are_neither_followed_nor_written_through(jail):
    outside = jail.folder / "outside"
    outside.write_text("secret")
    (jail.box / "link").symlink_to(outside)
    assert jail.fetch("link")[0] == wire.FAILED
    assert jail.put("link", b"mine") == b"\0"
    assert outside.read_text() == "secret"
    assert jail.fetch("link") == b"\0mine"


def test_reset_empties_the_box(jail):
    jail.put("one", b"1")
    (jail.box / "folder" / "deep").mkdir(parents=True)
    (jail.box / "folder" / "link").symlink_to(jail.folder)
    (jail.box / "folder").chmod(0o777)
    (jail.box / "folder" / "deep").chmod(0o777)
    assert jail.reset() == b"\0"
    assert list(jail.box.iterdir()) == []
    assert jail.folder.exists()
    assert jail.python("print(1)").stdout == b"1\n"


GARBAGE = {
    "oversized": struct.pack("<IBQ", wire.MAX_FRAME + 1, wire.HELLO, 1),
    "undersized": struct.pack("<IBQ", 3, wire.HELLO, 1),
    "unknown op": wire.pack_frame(9, 1, b""),
    "op 0": wire.pack_frame(0, 1, b""),
    "text": b"GET / HTTP/1.1\r\nHost: runner\r\n\r\n",
    "cut": wire.pack_frame(wire.PUT, 1, b"x" * 50)[:40],
    "hello without version": wire.pack_frame(wire.HELLO, 1, b""),
    "hello of another version": wire.pack_frame(wire.HELLO, 1, struct.pack("<I", 99)),
    "run of nothing": wire.pack_frame(wire.RUN, 1, b""),
    "run without program": wire.pack_frame(wire.RUN, 1, wire.pack_run(run_request())),
    "run with NUL": wire.pack_frame(wire.RUN, 1, wire.pack_run(run_request(b"/bin/true\0x"))),
    "run without time": wire.pack_frame(wire.RUN, 1, wire.pack_run(run_request("/bin/true", cpu_ms=0))),
    "run of an unknown kind": wire.pack_frame(wire.RUN, 1, wire.pack_run(run_request("/bin/true", kind=7))),
    "run with an argument beyond the frame": wire.pack_frame(wire.RUN, 1, wire.pack_run(run_request("/bin/true"))[:-4]),
    "fetch of nothing": wire.pack_frame(wire.FETCH, 1, b""),
    "put of nothing": wire.pack_frame(wire.PUT, 1, b"\0\0"),
    "reset with a payload": wire.pack_frame(wire.RESET, 1, bytes(200_000)),
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_garbage_ends_the_runner(garbage):
    with JailClient("none") as jail:
        with contextlib.suppress(BrokenPipeError):  # it may have ended before the last byte
            jail.process.stdin.write(garbage)
            jail.process.stdin.close()
        words = jail.last_words()
        assert jail.process.returncode == 2
        assert words.startswith("runner: ")
        assert len(words) < 2100


def test_the_end_of_the_host_is_the_end_of_the_runner(jail):
    jail.hello()
    jail.process.stdin.close()
    assert jail.process.wait(timeout=60) == 0


def test_a_killed_runner_takes_its_program_with_it(jail):
    """PDEATHSIG, which the program can't undo."""
    body = "import ctypes, time\nctypes.CDLL(None).prctl(1, 0)\ntime.sleep(60)"
    jail.put("main.py", body.encode())
    jail.send(wire.RUN, wire.pack_run(run_request(SYSTEM_PYTHON, "-I", "-S", jail.box / "main.py")))
    deadline = time.monotonic() + 60
    while not (running := jail.left()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.3)
    pid = int(running[0].split()[0])
    jail.process.kill()
    jail.process.wait()
    while is_running(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--isolation", "magic"], "wanted one of uid, namespace, landlock, none"),
        (["--isolation", "uid"], "found no --uids, wanted FIRST:LAST"),
        (["--isolation", "none", "--uids", "5:9"], "this mode changes no uid"),
        (["--isolation", "landlock", "--uids", "0:9"], "at least two uids from 1"),
        (["--isolation", "landlock", "--uids", "9:9"], "at least two uids from 1"),
        (["--isolation", "landlock", "--uids", "9"], "wanted FIRST:LAST"),
        (["--isolation"], "wanted --isolation MODE --box DIR"),
        (["--isolation", "none", "--verbose", "1"], "wanted --isolation MODE --box DIR"),
        (["--isolation", "none", "more"], "wanted --isolation MODE --box DIR"),
        ([], "wanted --isolation MODE --box DIR"),
    ],
)
def test_wrong_options_are_named(words, message):
    with JailClient("none", options=words) as jail:
        assert message in jail.last_words()
        assert jail.process.returncode == 2
