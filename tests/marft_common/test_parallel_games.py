"""Games side by side: numbered jobs in threads or at once, and environments that are used again or replaced."""

import math
import threading

import pytest

from marft_common.parallel_games import BackgroundJobs, ParallelGames
from marft_common.running_game import RunningGame
from tests.helpers.fakes import Market


def threads_of_games():
    return [thread for thread in threading.enumerate() if thread.name.startswith("marft-game")]


@pytest.fixture
def jobs():
    made = BackgroundJobs(3)
    yield made
    made.close()
    assert threads_of_games() == []


# ------------------------------------------------------------------------ jobs


def test_without_threads_a_job_runs_when_it_is_submitted():
    jobs, done = BackgroundJobs(0), []
    jobs.submit(4, done.append, threading.current_thread().name)
    jobs.submit(2, done.append, "second")
    assert done == [threading.current_thread().name, "second"]
    assert jobs.pending == [2, 4]
    assert jobs.finished() == [4, 2]
    assert (jobs.finished(), jobs.pending) == ([], [])
    jobs.submit(3, int)
    jobs.close()
    assert (len(jobs), jobs.pending) == (0, [])


def test_jobs_run_at_once_in_named_threads_and_are_reported_in_the_order_submitted(jobs):
    together, names = threading.Barrier(3, timeout=60), []

    def job():
        names.append(threading.current_thread().name)
        together.wait()

    for number in (7, 5, 6):
        jobs.submit(number, job)
    assert jobs.pending == [5, 6, 7]
    assert jobs.finished(math.inf) == [7, 5, 6]
    assert all(name.startswith("marft-game") for name in names)


def test_the_first_job_to_finish_is_not_held_up_by_others(jobs):
    slow = threading.Event()
    jobs.submit(0, slow.wait, 60)
    jobs.submit(1, int)
    assert jobs.finished() == [1]
    assert jobs.pending == [0]
    slow.set()
    assert jobs.finished() == [0]


def test_patience_waits_for_jobs_that_finish_soon(jobs):
    first = threading.Event()

    def later():
        assert first.wait(60)

    jobs.submit(0, later)
    jobs.submit(1, first.set)
    assert jobs.finished(patience_s=60) == [0, 1]


@pytest.mark.parametrize("threads", [0, 2])
def test_an_exception_of_a_job_is_raised_and_hides_no_other_job(threads):
    jobs = BackgroundJobs(threads)

    def run():
        for number, job in enumerate((int, lambda: 1 // 0, int)):
            jobs.submit(number, job)
        return jobs.finished(math.inf)

    with pytest.raises(ZeroDivisionError):
        run()
    assert jobs.finished(math.inf) == ([0, 2] if threads else [0])
    assert jobs.pending == []
    jobs.close()


def test_closing_waits_for_the_job_under_way_and_drops_the_others():
    jobs, begun, release, done = BackgroundJobs(1), threading.Event(), threading.Event(), []

    def first():
        begun.set()
        release.wait(60)
        done.append("first")

    jobs.submit(0, first)
    jobs.submit(1, done.append, "second")
    assert begun.wait(60)
    threading.Timer(0.02, release.set).start()
    jobs.close()
    assert (done, jobs.pending, threads_of_games()) == (["first"], [], [])


# ---------------------------------------------------------------- environments


class Made:
    """A factory of markets; `closed` lists those that were closed, by order of making."""

    def __init__(self, kind=Market):
        self.kind, self.envs = kind, []

    def __call__(self):
        self.envs.append(self.kind())
        return self.envs[-1]

    @property
    def closed(self):
        return [number for number, env in enumerate(self.envs) if env.closed]


def test_an_environment_is_used_again_and_one_that_failed_is_closed_and_never_used_again():
    make = Made()
    games = ParallelGames(make)
    first, second = games.enter(0, RunningGame), games.enter(1, RunningGame)
    assert (len(games), len(make.envs), games[1]) == (2, 2, second)
    first.fail("broken")
    assert games.leave(0) is first
    assert make.closed == [0]
    games.leave(1)
    assert (games.enter(2, RunningGame).env, games.enter(3, RunningGame).env) == tuple(make.envs[1:])
    assert (len(make.envs), make.closed) == (3, [0])


def test_a_game_takes_the_place_of_the_game_with_its_number():
    make = Made()
    games = ParallelGames(make)
    before = games.enter(0, RunningGame)
    game = games.enter(0, RunningGame)
    assert game is not before
    assert (game.env, len(games)) == (before.env, 1)
    game.fail("broken")
    assert games.enter(0, RunningGame).env is make.envs[1]
    assert make.closed == [0]


def test_environments_made_before_are_used_first():
    make = Made()
    games = ParallelGames(make, spare=[make()])
    assert games.enter(0, RunningGame).env is make.envs[0]
    assert games.enter(1, RunningGame).env is make.envs[1]


def test_closing_waits_for_steps_and_closes_all_even_if_one_raises():
    class Sticks(Market):
        def close(self):
            assert not self.stepping, "closed in mid-step"
            super().close()
            if self.turn == 1:
                raise OSError("it sticks")

        stepping, turn = False, 0

    make = Made(Sticks)
    jobs = BackgroundJobs(1)
    games = ParallelGames(make, jobs, spare=[make()])
    for number in range(3):
        games.enter(number, RunningGame)
    games.leave(2)
    begun = threading.Event()

    def step():
        make.envs[1].stepping = True
        begun.set()
        threading.Event().wait(0.02)
        make.envs[1].turn, make.envs[1].stepping = 1, False

    jobs.submit(1, step)
    assert begun.wait(60)
    with pytest.raises(OSError, match="it sticks"):
        games.close()
    assert make.closed == [0, 1, 2]
    games.close()
    assert (len(games), threads_of_games()) == (0, [])


def test_closing_ignores_what_a_failed_environment_raises():
    class Sticks(Market):
        def close(self):
            super().close()
            raise OSError("it sticks")

    make = Made(Sticks)
    games = ParallelGames(make)
    games.enter(0, RunningGame).fail("broken")
    games.close()
    assert make.closed == [0]
