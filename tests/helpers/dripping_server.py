"""A server that never ends its answer: each wait for it is short, the whole answer takes for ever."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

# what is sent at once, and what then is sent again and again
KINDS = {
    "silence": (b"", b""),
    "continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X-More: yes\r\n"),
    "body": (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10000\r\n\r\n", b"1"),
    "chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n1\r\n"),
    "error": (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 10000\r\n\r\n", b"1"),
}
_PAUSE_S, _GIVEN_UP_S = 0.01, 30.0  # a client without a deadline must not hang the test


@contextlib.contextmanager
def dripping(kind: str) -> Iterator[str]:
    """Yield the address of a server of one of the kinds."""
    start, again = KINDS[kind]
    over = threading.Event()

    def answer(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):  # the client has left
            connection.recv(65536)
            connection.sendall(start)
            for _ in range(int(_GIVEN_UP_S / _PAUSE_S)):
                if over.wait(_PAUSE_S):
                    break
                connection.sendall(again)

    def accept(listening: socket.socket) -> None:
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                connection = listening.accept()[0]
                connection.settimeout(None)
                threads.append(threading.Thread(target=answer, args=(connection,)))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.05)
        threads = [threading.Thread(target=accept, args=(listening,))]
        threads[0].start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            over.set()
            for thread in threads:
                thread.join()
