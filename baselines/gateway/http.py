"""HTTP server of an application: who may ask, and limits on requests and connections.

Errors of a body are raised inside of the application, so it shows them in the form of its own protocol.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any, Protocol

import uvicorn
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from baselines.gateway.allowed_hosts import hosts_of, may_ask
from baselines.gateway.waiting_connections import MOST, SECONDS, WaitingConnections

CONNECTIONS = 128  # open at the same time, besides one per question


class RequestLimits(Protocol):
    """Limits on requests."""

    @property
    def max_body_bytes(self) -> int:
        """Longest body, in bytes."""

    @property
    def request_timeout(self) -> float:
        """Seconds in which a body must arrive."""

    @property
    def max_questions(self) -> int:
        """Requests that are answered at the same time."""


class BodyLimits:
    """Middleware that refuses bodies that are too long, too slow or not declared as JSON, and foreign hosts.

    Args:
        app: Application that gets the checked requests.
        limits: Limits on size and time.
        hosts: Names in the Host header that are answered; empty: all. A web page of another site cannot reach a server
            on this machine under a name of its own.
    """

    def __init__(self, app: ASGIApp, limits: RequestLimits, hosts: frozenset[str]) -> None:
        self.app, self.limits, self.hosts = app, limits, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application with a `receive` that checks what it passes on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        named = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if not may_ask(named, self.hosts):
            await _wrong_host(self.hosts)(scope, receive, send)
            return
        loop = asyncio.get_running_loop()
        deadline, received = loop.time() + self.limits.request_timeout, 0

        async def checked() -> Message:
            nonlocal received
            if not received:
                self._check_headers(scope["method"], headers)
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"the body did not arrive in {self.limits.request_timeout:g} s") from None
            received += len(message.get("body", b""))
            if received > self.limits.max_body_bytes:
                raise self._too_long()
            return message

        await self.app(scope, checked, send)

    def _check_headers(self, method: str, headers: dict[str, str]) -> None:
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self.limits.max_body_bytes:
            raise self._too_long()
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method == "POST" and kind != "application/json":
            raise HTTPException(415, "wanted Content-Type: application/json")

    def _too_long(self) -> HTTPException:
        return HTTPException(413, f"the body is longer than {self.limits.max_body_bytes} bytes")


def _wrong_host(hosts: frozenset[str]) -> JSONResponse:
    message = f"wanted one Host header, of {', '.join(sorted(hosts)) or 'any name'}"
    return JSONResponse({"error": {"message": message, "type": "invalid_request_error", "param": "Host"}}, 421)


class BoundedConnection(H11Protocol):
    """One connection of a server that waits for requests as long as `WaitingConnections` allows.

    Args:
        headers: Connections of the server from which it waits for the headers of a request.
        bodies: Those from which it waits for the rest of a body.
        arguments: Those of uvicorn.
    """

    def __init__(self, headers: WaitingConnections, bodies: WaitingConnections, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._headers, self._bodies = headers, bodies

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._note()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        self._note()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._note()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._headers.remove(self)
        self._bodies.remove(self)
        super().connection_lost(exc)

    def _note(self) -> None:
        """Note what the server waits for."""
        answering = self.cycle is not None and not self.cycle.response_complete
        for group, waits in ((self._headers, not answering), (self._bodies, answering and self.cycle.more_body)):
            if not waits or self.transport.is_closing():
                group.remove(self)
            elif (until := group.add(self, self.transport.abort)) is not None:
                self.loop.call_later(group.seconds, group.close_late, until)


def server_of(
    app: ASGIApp, limits: RequestLimits, host: str, *, header_seconds: float = SECONDS, idle: int = MOST
) -> uvicorn.Server:
    """Return the server of an application, with all limits.

    Args:
        app: Application of one of the protocols.
        limits: Limits on requests.
        host: Address that the server will listen on.
        header_seconds: Time in which the headers of a request must arrive.
        idle: Most connections that wait for a request.
    """
    headers = WaitingConnections(header_seconds, idle)
    bodies = WaitingConnections(limits.request_timeout + header_seconds)  # after `BodyLimits` has answered
    protocol: Any = functools.partial(BoundedConnection, headers, bodies)
    return uvicorn.Server(
        uvicorn.Config(
            BodyLimits(app, limits, hosts_of(host)),
            http=protocol,
            log_level="warning",
            limit_concurrency=CONNECTIONS + limits.max_questions,
            timeout_graceful_shutdown=5,
            timeout_keep_alive=max(5, int(header_seconds)),
            lifespan="off",
            ws="none",
            server_header=False,
        )
    )
