"""Cache of built programs, by language and source; products stay on the host as bytes and never run there."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from marft_envs.sandbox.languages import Language

_ENTRY_BYTES = 8192  # weight of a build beside its product, so that failed builds are bounded too


@dataclass(frozen=True)
class Build:
    """Result of a build.

    Attributes:
        product: Bytes of the built file; None if the build failed.
        output: Messages of the compiler and the reason if it was ended, at most 4 KiB.
        was_ended: True if SIGKILL or the wall limit ended it. The cause may be external, so the build is not cached.
    """

    product: bytes | None
    output: str = ""
    was_ended: bool = False


class BuildCache:
    """Cache of builds by language and source; a second thread waits for the first one's build.

    Args:
        most_bytes: Largest total size of cached products in bytes; the least recently used is dropped first.
    """

    def __init__(self, most_bytes: int = 256 << 20) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._builds: OrderedDict[bytes, Build] = OrderedDict()
        self._pending: dict[bytes, Future[Build]] = {}
        self._bytes = 0

    def get(self, language: Language, source: bytes, make: Callable[[], Build]) -> Build:
        """Return the cached build, or call `make`; exceptions and ended builds are not cached."""
        key = hashlib.sha256(repr(language).encode() + source).digest()
        with self._lock:
            if key in self._builds:
                self._builds.move_to_end(key)
                return self._builds[key]
            pending = self._pending.get(key)
            if pending is None:
                mine = self._pending[key] = Future[Build]()
        if pending is None:
            return self._make(key, make, mine)
        try:
            build = pending.result()
        except Exception:  # the other thread's jail failed, so nothing is known of this program
            return make()
        return make() if build.was_ended else build

    def _make(self, key: bytes, make: Callable[[], Build], mine: Future[Build]) -> Build:
        try:
            build = make()
        except BaseException as error:
            with self._lock:
                del self._pending[key]
            mine.set_exception(error)
            raise
        with self._lock:
            del self._pending[key]
            if not build.was_ended:
                self._builds[key] = build
                self._bytes += _weight(build)
            while self._bytes > self._most_bytes:
                self._bytes -= _weight(self._builds.popitem(last=False)[1])
        mine.set_result(build)
        return build


def _weight(build: Build) -> int:
    return len(build.product or b"") + _ENTRY_BYTES
