"""The client of OpenAI-compatible servers: its time limit holds for a whole answer."""

from __future__ import annotations

import itertools
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from openai import APITimeoutError

from marft_common import openai_client
from marft_common.openai_client import open_client

REPLY = json.dumps({"id": "1", "object": "list", "data": [{"id": "base", "object": "model"}]}).encode()


class Dripping(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(REPLY)))
        self.end_headers()
        if self.path.startswith("/whole"):
            self.wfile.write(REPLY)
            return
        self.wfile.write(REPLY[:1])
        self.server.over.wait(60)

    def log_message(self, *_):
        """Print nothing."""


class Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """Clients that leave are part of the test."""


@pytest.fixture
def server():
    with Quiet(("127.0.0.1", 0), Dripping) as found:
        found.over = threading.Event()
        thread = threading.Thread(target=found.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{found.server_address[1]}"
        found.over.set()
        found.shutdown()
        thread.join()


def test_a_server_that_sends_one_byte_is_late(server, monkeypatch):
    clock = itertools.count(step=100)  # a hundred seconds pass from each look to the next
    monkeypatch.setattr(openai_client, "time", SimpleNamespace(monotonic=clock.__next__))
    with open_client(f"{server}/slow/v1", "none", timeout_s=60, retries=0) as client, pytest.raises(APITimeoutError):
        client.models.list()


def test_an_answer_in_time_arrives(server):
    with open_client(f"{server}/whole/v1", "none", timeout_s=30, retries=0) as client:
        assert [model.id for model in client.models.list()] == ["base"]
