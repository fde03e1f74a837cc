"""A program is built once, and what was built is forgotten when there is too much of it."""

import threading

import pytest

from marft_envs.sandbox import LANGUAGES
from marft_envs.sandbox.channel import SlotError
from marft_envs.sandbox.compilation import Build, BuildCache

PYTHON, CXX = LANGUAGES["python"], LANGUAGES["c++17"]


def maker(calls, product=b"x"):
    def make():
        calls.append(product)
        return Build(product)

    return make


def test_a_build_is_kept_by_language_and_source():
    cache, calls = BuildCache(), []
    for language, source in ((PYTHON, b"a"), (PYTHON, b"a"), (CXX, b"a"), (PYTHON, b"b"), (PYTHON, b"a")):
        cache.get(language, source, maker(calls))
    assert len(calls) == 3


def test_what_was_unused_longest_goes_first():
    cache, calls = BuildCache(most_bytes=25_000), []
    for source in (b"a", b"b", b"a", b"c"):  # c and a fit, b does not
        cache.get(PYTHON, source, maker(calls, b"x" * 1000))
    cache.get(PYTHON, b"a", maker(calls))
    assert len(calls) == 3
    cache.get(PYTHON, b"b", maker(calls))
    assert len(calls) == 4


def test_a_second_thread_waits_for_the_first():
    cache, calls, started, go = BuildCache(), [], threading.Event(), threading.Event()

    def slow():
        started.set()
        go.wait(10)
        calls.append(1)
        return Build(b"x")

    found = []
    first = threading.Thread(target=lambda: found.append(cache.get(CXX, b"a", slow)))
    first.start()
    started.wait(10)
    second = threading.Thread(target=lambda: found.append(cache.get(CXX, b"a", slow)))
    second.start()
    go.set()
    first.join()
    second.join()
    assert calls == [1]
    assert found[0] is found[1]


def test_a_failure_of_ours_is_not_kept():
    cache, calls = BuildCache(), []

    def fail():
        raise SlotError("gone")

    with pytest.raises(SlotError):
        cache.get(CXX, b"a", fail)
    assert cache.get(CXX, b"a", maker(calls)).product == b"x"
