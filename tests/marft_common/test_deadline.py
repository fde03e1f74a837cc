"""One deadline for a whole exchange: a server that sends a little at a time cannot hold it up, in no phase."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from marft_common.deadline import Deadline, LongReplyError, post
from tests.helpers.dripping_server import KINDS, dripping

LATE = r"timed out: no whole answer in 0\.2 s"


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_without_end_is_late_and_leaves_nothing_behind(kind):
    with dripping(kind) as url:
        threads = threading.active_count()
        with pytest.raises(TimeoutError, match=LATE):
            post(url, b"{}", {}, timeout_s=0.2, most_bytes=10**6)
        for timer in [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]:
            timer.join(20)  # that of the deadline has ended the wait, and is ending itself
        assert threading.active_count() <= threads + 1  # the server's own


def test_a_handshake_that_stalls_is_late():
    with dripping("silence") as url, pytest.raises(TimeoutError, match=LATE):
        post(url.replace("http", "https", 1), b"{}", {}, timeout_s=0.2, most_bytes=10**6)


def test_a_proxy_that_stalls_is_late(monkeypatch):
    with dripping("headers") as url:
        monkeypatch.setenv("https_proxy", url)
        monkeypatch.delenv("no_proxy", raising=False)
        with pytest.raises(TimeoutError, match=LATE):
            post("https://nowhere.invalid/", b"{}", {}, timeout_s=0.2, most_bytes=10**6)


def late_work():
    time.sleep(0.5)
    raise ValueError("cut")


def test_work_after_the_deadline_is_late_whatever_it_raises():
    with pytest.raises(TimeoutError, match=LATE) as caught, Deadline(0.2):
        late_work()
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_socket_that_comes_late_is_shut_down_at_once():
    found = []
    with contextlib.ExitStack() as stack:
        early, _, late, _ = (stack.enter_context(end) for _ in range(2) for end in socket.socketpair())
        with contextlib.suppress(TimeoutError), Deadline(0.01) as deadline:
            for own in (early, late):  # the first waits until the time is over
                deadline.watch(own)
                found.append(own.recv(1))
    assert found == [b"", b""]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.seen.append((self.rfile.read(int(self.headers["Content-Length"])), self.headers["X-Key"]))
        status = {"/away": 302, "/wrong": 422}.get(self.path, 200)
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/there")
        self.end_headers()
        self.wfile.write(b"x" * 100)

    do_GET = do_POST

    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        found.seen = []
        thread = threading.Thread(target=found.serve_forever, args=(0.02,))
        thread.start()
        found.url = f"http://127.0.0.1:{found.server_port}"
        yield found
        found.shutdown()
        thread.join()


def test_an_answer_in_time_arrives_whole_whatever_its_status(server):
    for path, status in (("/", 200), ("/wrong", 422), ("/away", 302)):
        found = post(server.url + path, b"{}", {"X-Key": "k"}, timeout_s=60, most_bytes=100)
        assert found == (status, b"x" * 100)
    assert server.seen == [(b"{}", "k")] * 3
    with pytest.raises(LongReplyError, match="longer than 99 bytes"):
        post(server.url, b"{}", {}, timeout_s=60, most_bytes=99)
