"""HTTP in front of a served team: limits on the body of a request, and who may ask.

Errors are raised inside of the application, so it shows them in the form of its own protocol.
"""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from baselines.local_hosts import host_name
from baselines.serving.served_team import ServeLimits


class BodyLimits:
    """Middleware that refuses bodies that are too long, too slow or not declared as JSON, and foreign hosts.

    Args:
        app: Application that gets the checked requests.
        limits: Limits on size and time.
        hosts: Names in the Host header that are answered; empty: all. A web page of another site cannot reach a server
            on this machine under a name of its own.
    """

    def __init__(self, app: ASGIApp, limits: ServeLimits, hosts: frozenset[str]) -> None:
        self.app, self.limits, self.hosts = app, limits, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application with a `receive` that checks what it passes on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
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
        if self.hosts and host_name(headers.get("host", "")) not in self.hosts:
            raise HTTPException(421, f"wanted a Host header of {', '.join(sorted(self.hosts))}")
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self.limits.max_body_bytes:
            raise self._too_long()
        if method == "POST" and headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise HTTPException(415, "wanted Content-Type: application/json")

    def _too_long(self) -> HTTPException:
        return HTTPException(413, f"the body is longer than {self.limits.max_body_bytes} bytes")
