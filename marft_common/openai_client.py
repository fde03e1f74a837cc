"""A client of the OpenAI SDK whose time limit is that of a whole try. Needs the package openai."""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from openai import DefaultHttpxClient, OpenAI

if TYPE_CHECKING:
    import httpx
else:  # openai 3 is built on httpx2, openai 2 on httpx
    httpx = importlib.import_module(DefaultHttpxClient.__base__.__module__.partition(".")[0])


class BodyInTime(httpx.SyncByteStream):
    """Body of a response that must end before a time; httpx limits each part alone.

    Args:
        response: Response whose body was not read yet.
        timeout_s: Seconds from now.

    Raises:
        httpx.ReadTimeout: While reading, once the time is over.
    """

    def __init__(self, response: httpx.Response, timeout_s: float) -> None:
        assert isinstance(response.stream, httpx.SyncByteStream)
        self._parts, self._request = response.stream, response.request
        self._timeout_s, self._end = timeout_s, time.monotonic() + timeout_s

    def __iter__(self) -> Iterator[bytes]:
        for part in self._parts:
            if time.monotonic() > self._end:
                message = f"the answer is not whole after {self._timeout_s:g} s"
                raise httpx.ReadTimeout(message, request=self._request)
            yield part

    def close(self) -> None:
        """Close the connection, or give it back."""
        self._parts.close()


class ClosingClient(DefaultHttpxClient):
    """HTTP client that closes its connections when nothing refers to it any more, as the one of the SDK does."""

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the interpreter's end, or not initialised
            self.close()


def open_client(base_url: str, key: str, timeout_s: float, retries: int) -> OpenAI:
    """Return a client.

    Args:
        base_url: Up to and including the version, like `http://localhost:8000/v1`.
        key: The API key, or any text.
        timeout_s: Time limit in seconds until the first byte of the answer, and from there to its last byte.
        retries: Further tries after a failure that may pass.
    """

    def limit_body(response: httpx.Response) -> None:
        response.stream = BodyInTime(response, timeout_s)

    http = ClosingClient(event_hooks={"response": [limit_body]})
    return OpenAI(base_url=base_url, api_key=key, timeout=timeout_s, max_retries=retries, http_client=http)
