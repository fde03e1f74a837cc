"""A real HTTP back end for the tests: rooms of a hotel, and endpoints that stall, lie or talk without end."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, given, dict(self.headers)))
        if self.path == "/stall":
            self.server.over.wait(60)
        if self.path == "/meet":
            self.server.together.wait(30)
        answer = {
            "/find_room": {"room": 7 if given.get("beds") == 1 else 12},
            "/lie": {"room": "seven"},
            "/meet": {},
            "/huge": "x" * 10_000_000,
        }.get(self.path, "ok")
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_): ...


class Backend(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """Clients that go away are part of the tests."""


@contextmanager
def backend():
    """Run a back end; `seen` are its requests (path, body, headers), `url` its address."""
    with Backend(("127.0.0.1", 0), Handler) as server:
        server.seen, server.over = [], threading.Event()
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()
