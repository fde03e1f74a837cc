"""Connections of a server that have not sent their whole request, bounded in number and time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable

MOST = 32  # connections; one more closes that which has waited longest
SECONDS = 10.0  # from the connection, or the last answer, to the end of the next request's headers


class WaitingConnections:
    """The connections of one server from which it waits for a request.

    Clients that send half a request would hold all places of a server. Here they hold at most `most`, and only for
    some seconds; an honest client sends its request at once.

    Args:
        seconds: Time until a connection is closed.
        most: Largest number of connections.
    """

    def __init__(self, seconds: float = SECONDS, most: int = MOST) -> None:
        self.seconds, self.most = seconds, most
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, tuple[float, Callable[[], None]]] = {}  # in the order of their deadlines

    def add(self, connection: Hashable, close: Callable[[], None]) -> float | None:
        """Add a connection; the one that waits longest is closed if there are too many.

        Args:
            connection: The connection, as a key.
            close: Closes it; may be called from another thread.

        Returns:
            Its deadline, in seconds of `time.monotonic`; None if it waits already.
        """
        with self._lock:
            if connection in self._waiting:
                return None
            until = time.monotonic() + self.seconds
            self._waiting[connection] = until, close
            oldest = next(iter(self._waiting)) if len(self._waiting) > self.most else None
            closing = [] if oldest is None else [self._waiting.pop(oldest)]
        for _, close_it in closing:
            close_it()
        return until

    def remove(self, connection: Hashable) -> None:
        """Forget a connection: its request is there, or it was closed."""
        with self._lock:
            self._waiting.pop(connection, None)

    def close_late(self, now: float | None = None) -> None:
        """Close the connections that have waited too long.

        Args:
            now: Time of `time.monotonic` that has come; None asks the clock. A timer may fire a moment before the clock
                says so, and then never again: it gives the deadline that it was set for.
        """
        if now is None:
            now = time.monotonic()
        with self._lock:
            late = [connection for connection, (deadline, _) in self._waiting.items() if deadline <= now]
            closing = [self._waiting.pop(connection) for connection in late]
        for _, close_it in closing:
            close_it()
