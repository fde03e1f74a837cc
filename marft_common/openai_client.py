"""A client of the OpenAI SDK whose time limit is that of a whole try. Needs the package openai."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

from openai import DefaultHttpxClient, OpenAI

from marft_common.deadline import Deadline

# openai 3 is built on httpx2, openai 2 on httpx
httpx: Any = importlib.import_module(DefaultHttpxClient.__base__.__module__.partition(".")[0])
_MOST_CONNECTIONS = 1000  # as the SDK allows


class ClientInTime(DefaultHttpxClient):
    """HTTP client with a deadline for each request, from its first byte to the last one of the answer.

    Each request has a connection of its own: a connection that is used again cannot be told from those of other
    requests. The client closes when nothing refers to it any more, as the one of the SDK does.

    Args:
        timeout_s: Seconds for a request.
    """

    def __init__(self, timeout_s: float) -> None:
        super().__init__(limits=httpx.Limits(max_connections=_MOST_CONNECTIONS, max_keepalive_connections=0))
        self._timeout_s = timeout_s

    def send(self, request: Any, **options: Any) -> Any:
        """Send a request and read the whole answer.

        Raises:
            httpx.ReadTimeout: The answer is not whole in time.
        """
        try:
            with Deadline(self._timeout_s) as deadline:

                def watch(event: str, about: dict[str, Any]) -> None:
                    if event == "connection.connect_tcp.complete":
                        deadline.watch(about["return_value"].get_extra_info("socket"))

                request.extensions = {**request.extensions, "trace": watch}
                response = super().send(request, **options)
                response.read()
                return response
        except TimeoutError as error:
            raise httpx.ReadTimeout(str(error), request=request) from error

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the interpreter's end, or not initialised
            self.close()


def open_client(base_url: str, key: str, timeout_s: float, retries: int) -> OpenAI:
    """Return a client.

    Args:
        base_url: Up to and including the version, like `http://localhost:8000/v1`.
        key: The API key, or any text.
        timeout_s: Time limit of a try in seconds, from its first byte to the last one of the answer.
        retries: Further tries after a failure that may pass.
    """
    http = ClientInTime(timeout_s)
    return OpenAI(base_url=base_url, api_key=key, timeout=timeout_s, max_retries=retries, http_client=http)
