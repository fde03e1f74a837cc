"""Tests of a submission that idle slots help to run: the judgement is that of one slot alone."""

import time

import pytest

from marft_envs.sandbox import Judge, Limits, Submission, Test
from marft_envs.sandbox.jail import wire
from marft_envs.sandbox.judge_data import TestResult, Verdict
from marft_envs.sandbox.pool import SlotPool
from marft_envs.sandbox.slot import SlotError
from marft_envs.sandbox.split_submission import SplitSubmission
from tests.marft_envs.sandbox.test_pool import CRASH, HANG, SLOW, FakeBackend, FakeSlot, result

OK, WRONG = TestResult(Verdict.OK), TestResult(Verdict.WA)


class RecordingSlot(FakeSlot):
    """Fake slot that tells which tests it ran; the helper's crashes on `CRASH`."""

    def __init__(self, backend, index):
        super().__init__(backend)
        self.index = index

    def run_all(self, requests, ahead):
        for request in requests:
            self.backend.ran.append((self.index, request.stdin))
            if request.stdin == HANG:
                self.gone.wait(20)
                raise SlotError("aborted")
            if request.stdin == CRASH and self.index == self.backend.fragile:
                raise SlotError("it crashed")
            time.sleep(0.005)
            yield result(request.stdin, wire.CPU_LIMIT if request.stdin == SLOW else 0)


class RecordingBackend(FakeBackend):
    def __init__(self, fragile=None):
        super().__init__()
        self.ran, self.fragile = [], fragile

    def open_slot(self, index):
        self.num_opened += 1
        return RecordingSlot(self, index)


@pytest.fixture
def open_pool():
    pools = []

    def make(workers, **knobs):
        pools.append(SlotPool(RecordingBackend(**knobs), workers))
        while len(pools[-1]._slots) < workers:
            time.sleep(0.001)
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


def submission(inputs, wrong=(), stop=True):
    tests = [Test(data, b"else" if place in wrong else data) for place, data in enumerate(inputs)]
    return Submission("program", "python", tests, Limits(), stop_on_failure=stop)


def numbers(count):
    return [b"%d" % number for number in range(count)]


def test_idle_slots_help_and_the_results_are_in_order(open_pool):
    pool = open_pool(3)
    judgement = pool.submit(submission(numbers(100))).result()
    assert [test.output for test in judgement.tests] == numbers(100)
    assert sorted(ran for _, ran in pool.backend.ran) == sorted(numbers(100))  # each once
    assert len({index for index, _ in pool.backend.ran}) > 1


def test_few_tests_are_run_by_one_slot(open_pool):
    pool = open_pool(2)
    pool.submit(submission(numbers(12))).result()
    assert len({index for index, _ in pool.backend.ran}) == 1


@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("wrong", [(2,), (37, 71), (99,)])
def test_failures_give_the_judgement_of_one_slot(open_pool, wrong, stop):
    alone, together = (open_pool(workers).submit(submission(numbers(100), wrong, stop)).result() for workers in (1, 3))
    assert [test.verdict for test in together.tests] == [test.verdict for test in alone.tests]
    assert together.verdict == alone.verdict == "WA"


def test_a_submission_comes_before_help(open_pool):
    pool = open_pool(2)
    futures = [pool.submit(submission(numbers(60))) for _ in range(2)]
    assert all(future.result().verdict == "OK" for future in futures)
    first = [index for index, ran in pool.backend.ran if ran == b"0"]
    assert sorted(first) == [0, 1]  # each slot began one


def test_what_a_helper_could_not_run_is_run_by_the_other(open_pool):
    inputs = [CRASH if place % 10 == 9 else data for place, data in enumerate(numbers(100))]
    for _ in range(5):
        pool = open_pool(2)
        future = pool.submit(submission(inputs))
        while not pool.backend.ran:
            time.sleep(0.0005)
        pool.backend.fragile = 1 - pool.backend.ran[0][0]  # the slot that did not begin
        judgement = future.result()
        assert judgement.verdict == "OK"
        assert not judgement.details  # no second attempt was needed


def test_one_confirmed_tle_is_enough_also_where_slots_share(open_pool):
    pool = open_pool(2)
    judgement = pool.submit(submission([*numbers(40), *[SLOW] * 40], stop=False)).result()
    assert [test.verdict for test in judgement.tests] == ["OK"] * 40 + ["TLE"] * 40
    assert 41 <= sum(ran == SLOW for _, ran in pool.backend.ran) <= 42  # both may run their first one again


def test_closing_ends_helpers(open_pool):
    pool = open_pool(2)
    future = pool.submit(submission([*numbers(28), HANG, *numbers(20), HANG, *numbers(40)]))  # each stops one slot
    while sum(ran == HANG for _, ran in pool.backend.ran) < 2:
        time.sleep(0.001)
    pool.close()
    assert future.result().verdict == "INTERNAL"


def test_tests_are_taken_in_order_and_the_last_ones_singly():
    shared = SplitSubmission(range(4, 40), 8, True)
    taken = []
    while (tests := shared.take()) is not None:
        taken.append(tests)
        shared.put(tests, [OK] * len(tests))
    assert [place for tests in taken for place in tests] == list(range(4, 40))
    assert [len(tests) for tests in taken[:2]] == [8, 7]
    assert len(taken[-1]) == 1
    assert shared.wait()
    assert shared.results() == [OK] * 36


def test_nothing_after_the_first_failure_counts():
    shared = SplitSubmission(range(30), 5, True)
    early, late = shared.take(), shared.take()
    shared.put(late, [OK, WRONG])
    assert shared.take() is None
    shared.put(early, [OK] * 5)
    assert shared.wait()
    assert shared.results() == [*[OK] * 6, WRONG]


def test_tests_given_back_are_taken_again_unless_they_do_not_count():
    shared = SplitSubmission(range(20), 5, True)
    early, late = shared.take(), shared.take()
    shared.give_back(early)
    assert not shared.wait()
    assert shared.take() == early
    shared.put(early, [WRONG])
    shared.give_back(late)
    assert shared.wait()
    assert shared.take() is None
    assert shared.results() == [WRONG]


def test_a_judge_of_this_machine_shares_tests():
    with Judge(backend="landlock", workers=2) as judge:
        tests = [Test(b"%d" % number, b"%d" % (number + 1)) for number in range(40)]
        program = "import time\ntime.sleep(0.01)\nprint(int(input()) + 1)"
        judgement = judge.run(program, tests=tests)
        assert judgement.verdict == "OK"
        assert [test.output.strip() for test in judgement.tests] == [test.output for test in tests]
        others = [*tests[:30], Test(b"1", b"1"), *tests[31:]]
        wrong = judge.submit(Submission(program, "python", others, stop_on_failure=True)).result()
    assert [test.verdict for test in wrong.tests] == ["OK"] * 30 + ["WA"] + ["SKIPPED"] * 9
