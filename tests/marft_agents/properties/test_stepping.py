"""Slow environments: steps in threads change neither trajectories nor the policy's batches, only the time it takes."""

from __future__ import annotations

import math
import threading
import time

import numpy as np
import pytest
import torch

from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.policies.policy import text_action
from marft_agents.policies.scripted import RandomPolicy, ScriptedPolicy
from marft_agents.rollouts.rollout import collect, draw_seed, training_episodes
from marft_agents.runs.evaluation import evaluate
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.trainer import Trainer
from tests.helpers.fakes import CopyDigit, Market, word_team
from tests.helpers.naive import adapters, play

MARKET = ("buyer_0", "seller_0")
ALWAYS_A = ScriptedPolicy(lambda agent, observation: "a")


class Slow(Market):
    """A market whose steps sleep for random times and which refuses to be stepped twice at once."""

    metadata = {**Market.metadata, "slow_step": True}  # noqa: RUF012
    clock = np.random.default_rng(0)

    def __init__(self, longest_s=0.004, **knobs):
        super().__init__(**knobs)
        self.longest_s = longest_s
        self.busy = threading.Lock()
        self.threads = set()

    def step(self, action):
        assert self.busy.acquire(blocking=False), "two steps of one game at once"
        try:
            self.threads.add(threading.current_thread().name)
            time.sleep(self.longest_s * self.clock.random())
            super().step(action)
        finally:
            self.busy.release()


class Judged(CopyDigit):
    """Only the last speaker's step takes time: the fake judge waits until a whole team of its workers is busy."""

    def __init__(self, workers):
        super().__init__()
        self.workers = workers

    def step(self, action):
        if self.agent_selection == "actor_0" and not any(self.terminations.values()):
            self.workers.wait()
        super().step(action)


class Unjudged(Slow):
    """Its judge breaks down in the second step of episodes whose seed is even."""

    def reset(self, seed=None, options=None):
        self.even = seed % 2 == 0
        super().reset(seed, options)

    def step(self, action):
        if self.even and self.turn == 1:
            raise ConnectionError("the judge is gone")
        super().step(action)


def no_threads_left():
    return not [thread for thread in threading.enumerate() if thread.name.startswith("marft-step")]


def summary(trajectories):
    return [
        (
            [(t.agent, t.round, t.reward, t.action.text, t.action.token_ids.tobytes()) for t in trajectory.turns],
            (trajectory.terminated, trajectory.truncated, trajectory.final_agent, trajectory.failure),
            (trajectory.final_prompt_ids.tobytes(), dict(trajectory.infos), trajectory.seed, trajectory.group),
        )
        for trajectory in trajectories
    ]


# ------------------------------------------------------------------ what results depend on


def ten_episodes(**knobs):
    team = word_team(MARKET, stir=0.3, sampling=SamplingParams(max_new_tokens=3))
    episodes = training_episodes(5, 3, 5, 2)
    return summary(collect(lambda: Slow(cut=True), team, episodes, seed=5, encode=team.encode, **knobs))


@pytest.fixture(scope="module")
def without_threads():
    return ten_episodes(step_threads=0)


@pytest.mark.parametrize(("num_envs", "threads"), [(1, 1), (4, 3), (4, 16), (64, 1), (64, 16)])
def test_trajectories_depend_neither_on_threads_nor_on_games_in_flight(num_envs, threads, without_threads):
    assert ten_episodes(num_envs=num_envs, step_threads=threads) == without_threads
    assert no_threads_left()


def test_only_environments_that_say_so_are_stepped_in_threads():
    made = []

    def run(make, **knobs):
        made.clear()
        collect(lambda: made.append(make()) or made[-1], ALWAYS_A, training_episodes(0, 0, 4, 1), seed=0, **knobs)
        return {name for env in made for name in env.threads}

    class Ordinary(Slow):
        metadata = Market.metadata

    here = threading.current_thread().name
    assert run(Ordinary) == {here}
    assert run(lambda: Slow(0), step_threads=0) == {here}
    assert all(name.startswith("marft-step") for name in run(lambda: Slow(0)))
    assert all(name.startswith("marft-step") for name in run(Ordinary, step_threads=2))


def test_with_patience_without_end_the_log_probs_are_the_same_to_the_bit():
    def run():
        team = word_team(MARKET, stir=0.3)
        played = collect(Slow, team, training_episodes(0, 0, 12, 1), seed=0, num_envs=5, patience=math.inf)
        return [turn.action.logprobs.tobytes() for trajectory in played for turn in trajectory.turns]

    assert run() == run()


# ------------------------------------------------------------------ what it takes


def test_many_episodes_in_flight_keep_the_workers_of_a_judge_busy():
    workers = threading.Barrier(8, timeout=60)  # breaks if fewer are ever at work at once
    played = collect(lambda: Judged(workers), ALWAYS_A, training_episodes(0, 0, 16, 1), seed=0, step_threads=8)
    assert {trajectory.failure for trajectory in played} == {None}


def test_a_game_that_waits_for_its_judge_stalls_no_other():
    others_over = threading.Event()

    class Waits(Market):
        def step(self, action):
            if self.start == 9 and self.turn == 0:
                assert others_over.wait(timeout=60), "the others wait for this game"
            super().step(action)

    ended = []

    def note(trajectory):
        ended.append(trajectory.infos["price"])
        if len(ended) == 7:
            others_over.set()

    options = [{"seed": 0, "offset": 9 - int(np.random.default_rng(0).integers(5))}, *[{"seed": 1}] * 7]
    result = evaluate(Threaded(Waits), ALWAYS_A, options, num_envs=3, on_end=note)
    assert result.failures == 0
    assert ended[-1] == 9


class Threaded:
    """Makes environments that ask for threads."""

    def __init__(self, kind):
        self.kind = type(kind.__name__, (kind,), {"metadata": {"slow_step": True}})

    def __call__(self):
        return self.kind()


class SlowPolicy:
    """Takes 400 s for each batch, by a clock of its own that nothing else moves."""

    def __init__(self):
        self.now_s = 0.0
        self.batches = []

    def perf_counter(self):
        return self.now_s

    def act(self, requests):
        self.batches.append(len(requests))
        self.now_s += 400.0
        return [text_action("a") for _ in requests]


def test_a_policy_slower_than_the_steps_keeps_its_batches(monkeypatch):
    policy = SlowPolicy()  # so up to 100 s are waited for steps of at most 5 ms
    monkeypatch.setattr("marft_agents.rollouts.rollout.time", policy)
    collect(lambda: Slow(0.005, rounds=1), policy, training_episodes(0, 0, 8, 1), seed=0)
    assert policy.batches == [8, 8, 8]


# ------------------------------------------------------------------ what goes wrong


def test_a_judge_that_breaks_down_is_a_record_also_in_threads():
    episodes = training_episodes(1, 0, 12, 1)
    wanted = summary(collect(Unjudged, RandomPolicy(), episodes, seed=0, step_threads=0))
    assert summary(collect(Unjudged, RandomPolicy(), episodes, seed=0, num_envs=3)) == wanted
    failures = [failure for _, (*_, failure), _ in wanted]
    causes = {None if failure is None else failure.partition(" (tests/")[0] for failure in failures}
    assert causes == {None, "step of buyer_0: ConnectionError: the judge is gone"}
    assert [failure is not None for failure in failures] == [e.seed % 2 == 0 for e in episodes]


class StopRequestedError(BaseException):
    """As Ctrl-C, or sys.exit in a step."""


@pytest.mark.parametrize("where", ["policy", "step"])
def test_what_stops_the_run_leaves_no_thread_and_no_open_environment(where):
    made = []

    class Stops(Slow):
        def step(self, action):
            if where == "step":
                raise StopRequestedError
            super().step(action)

    def say(agent, observation):
        if where == "policy" and len(observation.split()) == 5:  # the second turn of some game
            raise StopRequestedError
        return "a"

    def make():
        made.append(Stops())
        return made[-1]

    with pytest.raises(StopRequestedError):
        collect(make, ScriptedPolicy(say), training_episodes(0, 0, 6, 1), seed=0, num_envs=4)
    assert len(made) == 4
    assert all(env.closed for env in made)
    assert no_threads_left()


def test_fewer_than_no_threads_are_refused():
    with pytest.raises(ValueError, match="step_threads: found -1"):
        collect(Market, ALWAYS_A, training_episodes(0, 0, 1, 1), seed=0, step_threads=-1)


# ------------------------------------------------------------------ failed episodes count for nothing


def test_success_and_tokens_of_an_evaluation_are_those_of_the_episodes_played():
    team = word_team(MARKET, sampling=SamplingParams(max_new_tokens=1))
    result = evaluate(Unjudged, team, [{"seed": seed} for seed in range(6)])
    played = [t for t in result.trajectories if t.failure is None]
    assert (result.failures, len(played)) == (3, 3)
    assert [bool(np.isnan(row[0])) for row in result.scores] == [True, False] * 3
    assert result.accuracy.mean == np.mean([t.team_return > 0 for t in played])
    assert all(0 < t.num_tokens < 7 for t in result.trajectories if t.failure)  # they did sample before it broke
    assert result.tokens_per_episode == 7


def test_an_update_with_failed_episodes_is_the_update_without_them():
    trajectories = play(word_team(MARKET, stir=0.3), Unjudged, episodes=12)
    played = [t for t in trajectories if t.failure is None]
    assert 0 < len(played) < 12
    assert any(t.turns for t in trajectories if t.failure is not None)

    def updated(episodes):
        team = word_team(MARKET, stir=0.3)
        metrics = Learner(team, LearnerSettings(policy_lr=0.1, critic_lr=0.1)).update(episodes)
        return adapters(team), metrics

    (with_failed, metrics), (without, wanted) = updated(trajectories), updated(played)
    assert metrics == wanted
    for policy, tensors in without.items():
        assert all(torch.equal(with_failed[policy][name], tensor) for name, tensor in tensors.items())


def test_the_trainer_reports_success_over_the_episodes_played():
    class Sold(Unjudged):
        def step(self, action):
            super().step(action)
            for info in self.infos.values():
                info["success"] = 1.0

    team = word_team(MARKET)
    trainer = Trainer(Sold, team, Learner(team, LearnerSettings()), TrainingSchedule(groups=8, group_size=1))
    metrics = trainer.step()
    assert metrics["team/failed"] == sum(draw_seed(0, g) % 2 == 0 for g in range(8)) > 0
    assert metrics["team/success"] == 1.0
    assert metrics["team/turns"] == 7
