"""Builds, made once: the product comes back as bytes, is kept here, never runs here, and goes into other jails."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from marft_envs.sandbox import ruling
from marft_envs.sandbox.channel import SlotError
from marft_envs.sandbox.languages import Language
from marft_envs.sandbox.slot import Slot
from marft_envs.sandbox.verdict import Verdict

_SHOWN_BYTES = 4096


@dataclass(frozen=True)
class Build:
    """What a build came to.

    Attributes:
        product: What it left; None where it failed.
        output: What the compiler said, and why it was ended, at most 4 KiB.
    """

    product: bytes | None
    output: str = ""


class BuildCache:
    """Builds by language and source; of two threads that want the same one, the second waits for the first.

    Args:
        most_bytes: Of products kept; the one unused longest goes first.
    """

    def __init__(self, most_bytes: int = 256 << 20) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._builds: OrderedDict[bytes, Build] = OrderedDict()
        self._pending: dict[bytes, Future[Build]] = {}
        self._bytes = 0

    def get(self, language: Language, source: bytes, make: Callable[[], Build]) -> Build:
        """Return a build, made by `make` where there is none yet; what `make` raises is not kept."""
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
            self._builds[key] = build
            self._bytes += _weight(build)
            while self._bytes > self._most_bytes:
                self._bytes -= _weight(self._builds.popitem(last=False)[1])
        mine.set_result(build)
        return build


def _await(pending: Future[Build]) -> Build | None:
    try:
        return pending.result()
    except Exception:  # the other thread's jail failed: that says nothing of ours
        return None


def _weight(build: Build) -> int:
    return len(build.product or b"") + 2 * _SHOWN_BYTES


def build(slot: Slot, language: Language, source: bytes) -> Build:
    """Build a program in a slot; a compiler that fails, or hits a limit, is an answer."""
    request = ruling.build_request(language.command(language.build, slot.places))
    result, product = slot.build(request, language.product, {language.source: source})
    said = (result.stderr or result.stdout)[:_SHOWN_BYTES].decode(errors="replace")
    verdict, reason = ruling.rule(request, result)
    if verdict is Verdict.OK and product:
        return Build(product, said)
    if verdict is Verdict.OK:
        raise SlotError("the compiler reports success, but what it made is not there or too large")
    return Build(None, said if verdict is Verdict.RE and said else f"{said}\nthe compiler: {reason}".strip())
