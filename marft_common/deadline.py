"""Deadline of a whole exchange over sockets: connection, handshake, headers and body.

The timeout of a socket limits each wait alone. A server that sends a byte a second, or `100 Continue` without end,
never reaches it. So a timer shuts the sockets of the exchange down, and whoever waits for them returns.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self


class Deadline:
    """Time limit of the exchange in its block, over the sockets that it is told of.

    Args:
        seconds: Seconds from the beginning of the block.

    Raises:
        TimeoutError: At the end of the block, if the time was over before; whatever else was raised is its cause.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._is_over = False

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        self._timer.start()
        return self

    def __exit__(self, _: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._timer.cancel()
        with self._lock:
            for own in self._sockets:
                own.close()
            self._sockets.clear()
        # a socket with the same limit may notice before the timer's thread does
        late = isinstance(error, TimeoutError) and time.monotonic() - self._started >= self.seconds
        if (self._is_over or late) and (error is None or isinstance(error, Exception)):
            raise TimeoutError(f"timed out: no whole answer in {self.seconds:g} s") from error

    def watch(self, connected: socket.socket) -> None:
        """Add a socket; a copy is kept, since TLS takes the original away."""
        with self._lock:
            self._sockets.append(connected.dup())
            if self._is_over:
                _shut(self._sockets[-1])

    def _end(self) -> None:
        with self._lock:
            self._is_over = True
            for own in self._sockets:
                _shut(own)


def _shut(own: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the server has closed it
        own.shutdown(socket.SHUT_RDWR)


class Reply(NamedTuple):
    """Answer of an HTTP server: its status, and its body."""

    status: int
    content: bytes


class LongReplyError(ValueError):
    """An answer that is longer than allowed."""


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    timeout_s: float,
    most_bytes: int,
    follows: bool = False,
) -> Reply:
    """Post to an HTTP server, and return its answer, whatever the status.

    Args:
        url: Address with http or https.
        body: Content to post.
        headers: Headers of the request.
        timeout_s: Seconds until the answer must be whole.
        most_bytes: Largest answer; nothing is read beyond.
        follows: True to follow redirects.

    Raises:
        OSError, http.client.HTTPException: No whole answer, or not in time.
        LongReplyError: The answer is longer than `most_bytes`.
    """
    request = urllib.request.Request(url, body, dict(headers), method="POST")
    with Deadline(timeout_s) as deadline:
        handlers = [_Http(deadline), _Https(deadline), *([] if follows else [_NoRedirect()])]
        try:
            response = urllib.request.build_opener(*handlers).open(request, timeout=timeout_s)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            content: bytes = response.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise LongReplyError(f"the answer is longer than {most_bytes} bytes")
    return Reply(response.status, content)


class _Http(urllib.request.HTTPHandler):
    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(_watched, http.client.HTTPConnection, self._deadline), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(_watched, http.client.HTTPSConnection, self._deadline), req)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Refuse redirects: the headers are for this server alone."""


def _watched(kind: Any, deadline: Deadline, host: str, **options: Any) -> Any:
    """Return a connection whose socket is watched before a proxy, a handshake or headers may stall it."""
    connection = kind(host, **options)
    create = connection._create_connection  # the only place where http.client opens a socket

    def create_watched(*arguments: Any) -> socket.socket:
        connected: socket.socket = create(*arguments)
        deadline.watch(connected)
        return connected

    connection._create_connection = create_watched
    return connection
