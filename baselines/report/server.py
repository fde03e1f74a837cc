"""`marft view`: the report as a page on this machine that follows runs while they train.

    /                        the page, or a list where the folder holds several runs
    /NAME/                   the page of one of them
    /NAME/report.json        everything but the whole episodes; its ETag changes with the records
    /NAME/block-S-N.json     the episodes of block N of set S

A request names an entry of the list that was found when the folder was scanned; no part of an address becomes part of
a path. Requests for another host name are refused, so that a page elsewhere cannot read the records through a name
that it points at this machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import html
import json
import re
import socket
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from baselines.gateway.allowed_hosts import hosts_of, may_ask
from baselines.gateway.waiting_connections import WaitingConnections
from baselines.report.page import page, policy, report_content
from baselines.report.sources import Source, SourceError, kind_of, read_source

NAME_DEPTH = 2  # folders below the given one that are searched for runs
CONNECTIONS = 64  # answered at the same time, each by a thread
BLOCK = re.compile(r"block-(\d{1,4})-(\d{1,6})\.json")
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


class View:
    """The runs, evaluations and benchmarks of a folder, read anew when their records grow.

    Args:
        folder: One of them, or a folder that holds several.

    Raises:
        SourceError: The folder holds none.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sources: dict[str, Source] = {}
        self._lock = threading.Lock()
        if not self.places():
            raise SourceError(
                f"{folder}: found no run, evaluation, benchmark or attribution in it, wanted the folder of one or a "
                "folder that holds some"
            )

    def places(self) -> dict[str, Path]:
        """Return the path of everything that can be shown now, by its name in addresses.

        A folder that only holds an evaluation becomes a run when its training begins.
        """
        if kind_of(self.folder) is not None:
            return {self.folder.resolve().name or "run": self.folder}
        found: dict[str, Path] = {}
        for depth in range(1, NAME_DEPTH + 1):
            for path in sorted(self.folder.glob("/".join("*" * depth))):
                inside = any(parent in path.parents for parent in found.values())
                if path.is_dir() and not inside and kind_of(path) is not None:
                    found[path.relative_to(self.folder).as_posix().replace("/", "--")] = path
        return found

    def report(self, name: str) -> bytes:
        """Return the content of a report as JSON; `KeyError` for an unknown name."""
        with self._lock:
            content = report_content(self._source(name))
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")

    def _source(self, name: str) -> Source:
        """Read a source, but keep the episodes of the sets that are there already."""
        new = read_source(self.places()[name])
        old = self._sources.get(name)
        kept = {} if old is None else {episodes.file: episodes for episodes in old.episodes}
        new.episodes = [kept.get(episodes.file, episodes) for episodes in new.episodes]
        self._sources[name] = new
        return new

    def block(self, name: str, number: int, block: int) -> bytes:
        """Return the episodes of a block, compressed with raw deflate; `LookupError` if there is no such block."""
        with self._lock:
            return self._sources[name].episodes[number].blocks[block]


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD."""

    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each body waits 40 ms for the receipt of its headers
    timeout = 30

    def handle_one_request(self) -> None:
        """Wait for a request, as long as the server's limits allow, and answer it."""
        self.server.waiting.add(self, self._hang_up)
        try:
            super().handle_one_request()
        finally:
            self.server.waiting.remove(self)

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):  # it is gone already
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_GET(self) -> None:
        """Answer a request."""
        self.server.waiting.remove(self)
        if not may_ask(self.headers.get_all("Host", []), self.server.answered):
            self._send(HTTPStatus.FORBIDDEN, b"this server answers under its own host name only\n", "text/plain")
            return
        try:
            status, body, kind, headers = self._answer(unquote(self.path.partition("?")[0]))
        except LookupError:
            status, body, kind, headers = HTTPStatus.NOT_FOUND, b"there is nothing here\n", "text/plain", {}
        except ValueError as error:  # records that cannot be read
            status, headers = HTTPStatus.INTERNAL_SERVER_ERROR, {}
            body, kind = str(error).encode("utf-8", "replace"), "text/plain"
        self._send(status, body, kind, headers)

    def do_HEAD(self) -> None:
        """Answer a request without the body."""
        self.do_GET()

    def _answer(self, path: str) -> tuple[HTTPStatus, bytes, str, dict[str, str]]:
        view = self.server.view
        if path == "/":
            names = list(view.places())
            body = _list_page(names) if len(names) > 1 else b""
            moved = {} if body else {"Location": f"/{quote(names[0])}/"}
            return (HTTPStatus.FOUND if moved else HTTPStatus.OK), body, "text/html", moved
        _, name, *rest = path.split("/")
        if name not in view.places() or len(rest) != 1:
            raise KeyError(path)
        if not rest[0]:
            return HTTPStatus.OK, page(name, follow=True), "text/html", {}
        if rest[0] == "report.json":
            body = view.report(name)
            tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            if self.headers.get("If-None-Match") == tag:
                return HTTPStatus.NOT_MODIFIED, b"", "application/json", {"ETag": tag}
            return HTTPStatus.OK, body, "application/json", {"ETag": tag}
        match = BLOCK.fullmatch(rest[0])
        if match is None:
            raise KeyError(path)
        return HTTPStatus.OK, view.block(name, int(match[1]), int(match[2])), "application/octet-stream", {}

    def _send(self, status: HTTPStatus, body: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        charset = "" if kind == "application/octet-stream" else "; charset=utf-8"
        told = HEADERS | {"Content-Type": kind + charset, "Content-Length": str(len(body))} | (headers or {})
        if kind == "text/html":
            told["Content-Security-Policy"] = policy(follow=True) + "; frame-ancestors 'none'"
        for name, value in told.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing: the page asks every two seconds."""


class Server(ThreadingHTTPServer):
    """The server of a view.

    Args:
        view: What it shows.
        host: Address to listen on; another than this machine's own lets others read the records.
        port: Port; 0 takes a free one.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, view: View, host: str = "127.0.0.1", port: int = 0) -> None:
        self.view, self.host = view, host
        self.answered = hosts_of(host)
        self.waiting = WaitingConnections()
        self._places = threading.BoundedSemaphore(CONNECTIONS)
        super().__init__((host, port), Handler)

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{self.host}:{self.server_address[1]}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread of its own, if there are not too many."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def service_actions(self) -> None:
        """Close connections that have waited too long; called twice a second."""
        self.waiting.close_late()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print no traceback for a client that went away in the middle."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _list_page(names: list[str]) -> bytes:
    items = "".join(f'<li><a href="/{quote(name)}/">{html.escape(name)}</a></li>' for name in names)
    return page("runs", f'<ul id="places" hidden>{items}</ul>', follow=True)
