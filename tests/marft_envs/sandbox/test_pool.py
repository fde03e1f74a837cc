"""Nothing that is handed in is lost, whatever becomes of the slots. The slots here are fakes; the pool is not."""

import os
import threading
import time
from concurrent.futures import CancelledError, wait

import pytest

from marft_envs.sandbox import Limits, SandboxError, Submission, Test
from marft_envs.sandbox import pool as pool_module
from marft_envs.sandbox.jail import wire
from marft_envs.sandbox.jail.wire import RunResult
from marft_envs.sandbox.pool import SlotPool
from marft_envs.sandbox.slot import SlotError

PLACES = {"box": "/box", "python": "python", "c++": "g++", "headers": "/headers"}
CRASH, HANG, SLOW = b"crash", b"hang", b"slow"  # inputs that make a fake slot do so


class FakeSlot:
    """Echoes the input; builds are the source in capitals."""

    def __init__(self, backend):
        self.places = PLACES
        self.backend = backend
        self.gone = threading.Event()

    def put(self, name, content, mode):
        if self.gone.is_set():
            raise SlotError("no jail: gone")

    def build(self, request, product, files):
        self.backend.num_builds += 1
        return result(), b"product"

    def run_all(self, requests, ahead):
        for request in requests:
            if request.stdin == CRASH and self.backend.crashes > 0:
                self.backend.crashes -= 1
                raise SlotError("it crashed")
            if request.stdin == HANG:
                self.gone.wait(20)
                raise SlotError("aborted")
            slow = request.stdin == SLOW and self.backend.slow_runs > 0
            self.backend.slow_runs -= slow
            time.sleep(0.002)
            yield result(request.stdin, wire.CPU_LIMIT if slow else 0)

    def reset(self):
        self.backend.num_resets += 1
        if self.backend.num_resets in self.backend.broken_resets:
            raise OSError("too many open files")

    def ran_out_of_memory(self):
        assert not self.gone.is_set()  # a jail that is closed cannot say so any more
        return self.backend.starved.pop(0) if self.backend.starved else False

    def abort(self):
        self.gone.set()

    def close(self):
        self.gone.set()
        self.backend.num_closed += 1


class FakeBackend:
    name = "fake"
    tools = PLACES
    headers = None

    def __init__(self, crashes=0, slow_runs=0, broken_opens=(), broken_resets=(), starved=()):
        self.starved = list(starved)
        self.crashes, self.slow_runs, self.broken_opens = crashes, slow_runs, broken_opens
        self.broken_resets = broken_resets
        self.num_opened = self.num_closed = self.num_builds = self.num_resets = 0
        self.is_closed = False

    def open_slot(self, index):
        self.num_opened += 1
        if self.num_opened in self.broken_opens:
            raise SlotError("no container")
        return FakeSlot(self)

    def close(self):
        self.is_closed = True


def result(stdout=b"", flags=0):
    return RunResult(wire.RAN, flags, 0, 1000, 1000, 1024, len(stdout), stdout, b"")


def submission(*inputs, stop=False):
    return Submission("program", "python", [Test(data, data) for data in inputs], Limits(), stop_on_failure=stop)


@pytest.fixture
def open_pool(monkeypatch):
    monkeypatch.setattr(pool_module, "_PAUSE_S", 0.01)
    pools = []

    def make(workers=1, **knobs):
        pools.append(SlotPool(FakeBackend(**knobs), workers))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()
        assert pool.backend.is_closed
        assert pool.backend.num_closed + sum(n <= pool.backend.num_opened for n in pool.backend.broken_opens) == (
            pool.backend.num_opened
        )


def test_many_are_judged_in_order_and_built_once(open_pool):
    pool = open_pool(workers=4)
    futures = [pool.submit(submission(b"%d" % n)) for n in range(50)]
    judgements = [future.result() for future in futures]
    assert [j.tests[0].output for j in judgements] == [b"%d" % n for n in range(50)]
    assert pool.backend.num_builds == 1


def test_a_crash_is_tried_again_on_a_fresh_slot(open_pool):
    pool = open_pool(crashes=1)
    judgement = pool.submit(submission(b"1", CRASH)).result()
    assert judgement.verdict == "OK"
    assert judgement.details == {"first attempt": "it crashed"}
    assert pool.backend.num_opened == 2


def test_a_second_crash_is_internal_and_the_next_is_judged(open_pool):
    pool = open_pool(crashes=2)
    bad, good = pool.submit(submission(CRASH)), pool.submit(submission(b"1"))
    assert bad.result().verdict == "INTERNAL"
    assert bad.result().details == {"first attempt": "it crashed", "second attempt": "it crashed"}
    assert good.result().verdict == "OK"


@pytest.mark.parametrize(
    ("starved", "verdict"),
    [((True, True), "MLE"), ((True, False), "INTERNAL"), ((False, True), "INTERNAL")],
    ids=["twice", "first time", "second time"],
)
def test_a_program_that_makes_its_slot_run_out_of_memory_twice_has_failed(open_pool, starved, verdict):
    pool = open_pool(crashes=2, starved=starved)
    bad, good = pool.submit(submission(CRASH, b"1")), pool.submit(submission(b"1"))
    assert bad.result().verdict == verdict
    assert bad.result().details == {"first attempt": "it crashed", "second attempt": "it crashed"}
    assert [test.verdict for test in bad.result().tests] == (["MLE", "SKIPPED"] if verdict == "MLE" else [])
    assert good.result().verdict == "OK"


def test_a_slot_that_ran_out_of_memory_once_is_no_failure_of_the_program(open_pool):
    pool = open_pool(crashes=1, broken_opens=(2,), starved=(True,))
    assert pool.submit(submission(CRASH)).result().verdict == "OK"


def test_slots_that_can_not_be_opened_again_lose_nothing(open_pool):
    pool = open_pool(crashes=1, broken_opens=(2, 3, 4))
    futures = [pool.submit(submission(CRASH)), *[pool.submit(submission(b"1")) for _ in range(3)]]
    verdicts = [future.result().verdict for future in futures]
    assert verdicts[0] == "INTERNAL"
    assert verdicts[-1] == "OK"


def test_a_slot_that_can_not_be_made_ready_gives_way_and_its_thread_goes_on(open_pool):
    pool = open_pool(broken_resets=(1, 3))
    futures = [pool.submit(submission(b"1")) for _ in range(4)]
    assert [future.result(timeout=60).verdict for future in futures] == ["OK"] * 4
    assert pool.backend.num_opened == 3


def test_a_forked_process_can_neither_use_nor_end_the_pool(open_pool):
    pool = open_pool()
    pid = os.fork()
    if pid == 0:
        try:
            pool.submit(submission(b"1"))
            os._exit(1)
        except SandboxError as error:
            pool.close()
            os._exit(3 if "forked" in str(error) and not pool.backend.is_closed else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    assert pool.submit(submission(b"1")).result().verdict == "OK"


def test_a_first_slot_that_can_not_be_opened_is_an_error():
    backend = FakeBackend(broken_opens=(1,))
    with pytest.raises(SandboxError, match="fake: no container"):
        SlotPool(backend, 1)
    assert backend.is_closed


def test_closing_cancels_what_waits_and_ends_what_runs(open_pool):
    pool = open_pool()
    running, waiting = pool.submit(submission(HANG)), pool.submit(submission(b"1"))
    while not running.running():
        time.sleep(0.001)
    pool.close()
    assert running.result().verdict == "INTERNAL"
    assert running.result().details == {"first attempt": "the judge was closed"}
    with pytest.raises(CancelledError):
        waiting.result()
    pool.close()
    with pytest.raises(SandboxError, match="closed"):
        pool.submit(submission(b"1"))


def test_a_cancelled_submission_is_not_run(open_pool):
    pool = open_pool()
    first, second, third = (pool.submit(submission(b"1" * 10)) for _ in range(3))
    cancelled = second.cancel()
    wait([first, third], timeout=60)
    assert third.result().verdict == "OK"
    assert second.cancelled() == cancelled


@pytest.mark.parametrize("stop", [False, True])
def test_a_slow_test_gets_a_second_chance_only_beside_others(open_pool, stop):
    alone = open_pool(slow_runs=1)
    assert alone.submit(submission(b"1", SLOW, b"2", stop=stop)).result().verdict == "TLE"
    busy = open_pool(workers=2, slow_runs=1)
    hanging = busy.submit(submission(HANG))
    judgement = busy.submit(submission(b"1", SLOW, b"2", stop=stop)).result()
    assert [test.verdict for test in judgement.tests] == ["OK", "OK", "OK"]
    assert not hanging.done()


def test_a_slow_program_is_confirmed_once(open_pool):
    pool = open_pool(workers=2, slow_runs=4)
    pool.submit(submission(HANG))
    verdicts = [test.verdict for test in pool.submit(submission(SLOW, SLOW, SLOW)).result().tests]
    assert verdicts == ["TLE", "TLE", "TLE"]
    assert pool.backend.slow_runs == 0


def test_a_slot_is_recycled(open_pool, monkeypatch):
    monkeypatch.setattr(pool_module, "RECYCLE_AFTER", 3)
    pool = open_pool()
    for _ in range(7):
        pool.submit(submission(b"1")).result()
    pool.close()
    assert pool.backend.num_opened == 3
    assert pool.backend.num_resets == 5


def test_a_checker_that_raises_is_internal_and_a_bug_of_ours_is_an_exception(open_pool):
    class Broken:
        def check(self, input, output, expected):
            raise RuntimeError(expected)

    pool = open_pool()
    tests = [Test(b"secret", b"secret")]
    judgement = pool.submit(Submission("x", "python", tests, checker=Broken())).result()
    assert judgement.verdict == "INTERNAL"
    assert "secret" not in str(judgement.details)
    pool._builds = None
    with pytest.raises(AttributeError):
        pool.submit(submission(b"1")).result()
