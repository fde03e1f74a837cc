"""Build cache: products are returned as bytes, kept on the host, never run there, and copied to other jails."""

from __future__ import annotations

import hashlib
import signal
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from marft_envs.sandbox import ruling
from marft_envs.sandbox.channel import SlotError
from marft_envs.sandbox.jail import wire
from marft_envs.sandbox.jail.wire import RunRequest, RunResult
from marft_envs.sandbox.languages import Language
from marft_envs.sandbox.slot import Slot
from marft_envs.sandbox.verdict import Verdict

_SHOWN_BYTES = 4096
_KILLED = (b": fatal error: Killed signal terminated program ", b" terminated with signal 9 ")


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
        if pending is not None:
            return _await(pending) or make()
        return self._make(key, make, mine)

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


def _await(pending: Future[Build]) -> Build | None:
    try:
        build = pending.result()
    except Exception:  # only the other thread's jail failed
        return None
    return None if build.was_ended else build


def _weight(build: Build) -> int:
    return len(build.product or b"") + 2 * _SHOWN_BYTES


def build(slot: Slot, language: Language, source: bytes) -> Build:
    """Build a program in a slot; a compiler that fails or hits a limit is a valid result.

    A build that was ended is repeated once, as the cause may be a busy machine or one that ran out of memory.
    """
    first = _build_once(slot, language, source)
    return _build_once(slot, language, source) if first.was_ended else first


def _build_once(slot: Slot, language: Language, source: bytes) -> Build:
    request = ruling.build_request(language.command(language.build, slot.places))
    result, product = slot.build(request, language.product, {language.source: source})
    said = (result.stderr or result.stdout)[:_SHOWN_BYTES].decode(errors="replace")
    verdict, reason = ruling.rule(request, result)
    if verdict is Verdict.OK and product:
        return Build(product, said)
    if verdict is Verdict.OK:
        raise SlotError("the compiler reports success, but what it made is not there or too large")
    message = said if verdict is Verdict.RE and said else f"{said}\nthe compiler: {reason}".strip()
    return Build(None, message, _was_ended(request, result))


def _was_ended(request: RunRequest, result: RunResult) -> bool:
    """True if SIGKILL or the wall limit ended a build, and not its own CPU time."""
    if ruling.is_out_of_cpu(request, result):
        return False
    # The compiler driver outlives the compiler proper and reports its end.
    killed = result.exit_status == -signal.SIGKILL or any(words in result.stderr for words in _KILLED)
    return killed or bool(result.flags & wire.WALL_LIMIT)
