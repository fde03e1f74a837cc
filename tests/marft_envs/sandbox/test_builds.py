"""A program is built once, and what was built is forgotten when there is too much of it."""

import threading

import pytest

from marft_envs.sandbox import LANGUAGES
from marft_envs.sandbox.build_cache import Build, BuildCache
from marft_envs.sandbox.jail import wire
from marft_envs.sandbox.jail.wire import RunResult
from marft_envs.sandbox.slot import SlotError
from marft_envs.sandbox.submission_run import build

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


def test_a_build_that_was_ended_is_not_kept():
    cache, calls = BuildCache(), []
    assert cache.get(CXX, b"a", lambda: Build(None, "killed", was_ended=True)).output == "killed"
    assert cache.get(CXX, b"a", maker(calls)).product == b"x"
    assert calls == [b"x"]


class Compiler:
    """A slot in which builds end as they are told to."""

    def __init__(self, *results):
        self.results = list(results)
        self.places = {"box": "/box", "python": "python", "c++": "g++", "headers": "/headers"}

    def build(self, request, product, files):
        result = self.results.pop(0)
        return result, b"product" * (result.exit_status == 0)


def ended(exit_status=0, flags=0, cpu_s=1.0, stderr=b""):
    return RunResult(wire.RAN, flags, exit_status, int(cpu_s * 1e6), 2_000_000, 50_000, 0, b"", stderr)


@pytest.mark.parametrize(
    "first",
    [
        ended(-9),
        ended(-9, wire.OOM),
        ended(-9, wire.WALL_LIMIT),
        ended(1, stderr=b"g++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\n"),
        ended(1, stderr=b"collect2: fatal error: ld terminated with signal 9 [Killed]\n"),
    ],
    ids=["killed", "out of memory", "wall limit", "the compiler proper", "the linker"],
)
def test_a_build_that_was_ended_is_made_once_more(first):
    assert build(Compiler(first, ended()), CXX, b"a") == Build(b"product")
    twice = build(Compiler(first, first), CXX, b"a")
    assert (twice.product, twice.was_ended) == (None, True)
    assert twice.output


@pytest.mark.parametrize(
    "result",
    [ended(1, stderr=b"main.cpp:1: error"), ended(-9, wire.CPU_LIMIT, 20.1), ended(1, 0, 20.1), ended(-25)],
    ids=["error", "CPU limit", "CPU limit of the compiler proper", "too large"],
)
def test_a_build_that_fails_by_itself_is_made_once(result):
    made = build(Compiler(result), CXX, b"a")
    assert (made.product, made.was_ended) == (None, False)
