"""Rollouts by several workers: the same results as without them, bounded staleness, stragglers. Workers are threads."""

from __future__ import annotations

import contextlib
import importlib.util
import queue
import socket
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from baselines.cli.main import main
from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.algorithms import learner_settings
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.policies.adapter_files import pack_adapters, unpack_adapters
from marft_agents.policies.policy import text_action
from marft_agents.rollouts import ray_workers
from marft_agents.rollouts.prompt_groups import GroupSettings, PromptGroup
from marft_agents.rollouts.rollout_settings import RolloutSettings, refuse_uncorrected
from marft_agents.rollouts.rollout_source import GroupPlayer, LocalRollouts
from marft_agents.rollouts.rollout_workers import Played, WorkerRollouts
from marft_agents.runs import checkpoint
from marft_agents.runs.run_folder import RunFolder, read_metrics
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.trainer import Trainer, group_settings
from marft_agents.setting_fields import SettingsError
from marft_agents.trajectory import SampledTurn, Trajectory
from marft_common.installation import pip_install
from tests.helpers.fakes import Market, word_team
from tests.helpers.naive import BRIEF_CRITIC
from tests.helpers.run_outcome import outcome

SCHEDULE = TrainingSchedule(updates=2, groups=4, group_size=2, seed=3)
SETTINGS = LearnerSettings(level="token", policy_lr=1e-2, critic_lr=1e-2, **BRIEF_CRITIC)


def new_team():
    return word_team(["buyer_0", "seller_0"], sampling=SamplingParams(max_new_tokens=3), stir=0.1)


def new_player(team, settings=SETTINGS):
    return GroupPlayer(lambda: Market(cut=True), team, team, group_settings(SCHEDULE, settings))


class ThreadWorkers:
    """Workers in this process, each with a team of its own; the k-th call of all waits `delays[k]` seconds."""

    def __init__(self, team, count, delays=(), settings=SETTINGS):
        self.team, self.count = team, count
        self.delays = iter(delays)
        self.idle = queue.SimpleQueue()
        for _ in range(count):
            self.idle.put(new_player(new_team(), settings))

    def publish(self, version):
        self.published = version, pack_adapters(self.team)

    def play(self, numbers):
        player = self.idle.get()
        version, adapters = self.published
        time.sleep(next(self.delays, 0.0))
        unpack_adapters(player.team, adapters)
        used = replace(player.team.prompt_cache_use)
        groups = player.play(numbers)
        played = Played(version, groups, 0.5, player.team.prompt_cache_use - used)
        self.idle.put(player)
        return played


@contextlib.contextmanager
def source_of(kind, team, settings):
    """Yield where episodes come from: None of the trainer itself, a chunk size, or (workers, delays, settings)."""
    if kind is None or isinstance(kind, int):
        yield None if kind is None else LocalRollouts(new_player(team, settings), kind)
        return
    count, delays, rollouts = kind
    workers = ThreadWorkers(team, count, delays, settings)
    source = WorkerRollouts(workers, group_settings(SCHEDULE, settings), rollouts, max_updates=3)
    yield source
    source.cancel()


def train(folder, kind=None, settings=SETTINGS, updates=2):
    team = new_team()
    learner = Learner(team, settings, seed=1, total_updates=3)
    done = checkpoint.load(folder, team, learner) if checkpoint.latest(folder / "checkpoints") else 0
    records = RunFolder(folder, {}, resume_at=done)
    schedule = replace(SCHEDULE, updates=updates)
    with source_of(kind, team, settings) as rollouts:
        Trainer(lambda: Market(cut=True), team, learner, schedule, folder=records, rollouts=rollouts).run()
    records.close()
    return outcome(folder)


def settings_for(workers, staleness=0, chunk=0):
    return RolloutSettings("local", rollout_workers=workers, max_staleness=staleness, rollout_chunk=chunk)


# ---------------------------------------------------------------------- no staleness


@pytest.fixture(scope="module")
def one_by_one(tmp_path_factory):
    """A local run that plays its prompt groups one by one."""
    return train(tmp_path_factory.mktemp("local") / "run", 1)


def test_one_worker_equals_the_local_run(tmp_path):
    local = train(tmp_path / "local")
    assert train(tmp_path / "worker", (1, (), settings_for(1))) == local
    assert not any("staleness" in name for line in local["metrics"] for name in line)


@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.long), 3])
def test_neither_the_number_of_workers_nor_the_order_of_arrival_changes_results(tmp_path, one_by_one, count):
    delays = np.random.default_rng(count).choice([0.0, 0.05], size=12)
    assert train(tmp_path / "run", (count, delays, settings_for(count))) == one_by_one


def test_dynamic_sampling_and_branches_by_workers(tmp_path):
    settings = LearnerSettings(baseline="group", compare="turn", policy_lr=1e-2, dynamic_sampling=2, branches=2)
    local = train(tmp_path / "local", 1, settings, updates=1)
    assert train(tmp_path / "workers", (2, [0.05], settings_for(2)), settings, updates=1) == local


# ---------------------------------------------------------------------- staleness


class Scripted:
    """Workers whose prompt groups wait until they are allowed; each group is one episode of one turn."""

    def __init__(self, count=2, held=()):
        self.count = count
        self.version = -1
        self.held = {number: threading.Event() for number in held}
        self.asked = []

    def publish(self, version):
        self.version = version

    def play(self, numbers):
        version = self.version
        self.asked += [(number, version) for number in numbers]
        for number in numbers:
            if number in self.held:
                assert self.held[number].wait(20)
        return Played(version, [self.group(number) for number in numbers], 1.0)

    def group(self, number):
        turn = SampledTurn("a_0", text_action("x"), float(number % 2))
        episode = Trajectory(number, number, (turn,), True, False)
        return PromptGroup((episode,), (episode,), (), (True,))


@contextlib.contextmanager
def stream(workers, staleness=1, groups=2, updates=9, **grouping):
    source = WorkerRollouts(
        workers, GroupSettings(0, groups, 1, **grouping), settings_for(workers.count, staleness), max_updates=updates
    )
    try:
        yield source
    finally:
        for event in getattr(workers, "held", {}).values():
            event.set()
        source.cancel()


def numbers_of(rollout):
    return [trajectory.group for trajectory in rollout.experience.trained]


def settle(workers, count):
    """Wait until `count` prompt groups were asked for."""
    deadline = time.monotonic() + 20
    while len(workers.asked) < count:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_workers_play_ahead_by_the_largest_staleness_and_no_further():
    workers = Scripted()
    with stream(workers, staleness=2, updates=4) as source:
        for update in range(4):
            rollout = source.rollout(update)
            assert numbers_of(rollout) == [2 * update, 2 * update + 1]
            assert rollout.metrics["team/staleness_max"] <= 2
            assert rollout.metrics["team/episodes_dropped"] == 0
            settle(workers, 2 * min(4, update + 3))
    assert sorted(number for number, _ in workers.asked) == list(range(8))  # none beyond the last update
    assert dict(workers.asked)[5] == 0  # the third update's prompt groups were asked for at the first


def test_what_was_played_by_an_earlier_version_is_marked():
    workers = Scripted()
    with stream(workers) as source:
        first = source.rollout(0)
        settle(workers, 4)
        second = source.rollout(1)
    exact = [[t.turns[0].action.exact for t in rollout.experience.trained] for rollout in (first, second)]
    assert exact == [[True, True], [False, False]]
    assert all(a is b for a, b in zip(second.experience.trained, second.experience.played, strict=True))
    assert second.metrics["team/staleness_mean"] == second.metrics["team/staleness_max"] == 1


def test_a_straggler_holds_up_nobody_and_is_dropped_and_counted_when_too_old():
    workers = Scripted(held=[1])
    with stream(workers, staleness=1) as source:
        trained = []
        for update in range(3):  # prompt group 1 takes more than two updates
            rollout = source.rollout(update)
            trained += numbers_of(rollout)
            assert rollout.metrics["team/episodes_dropped"] == 0
        assert trained == [0, 2, 3, 4, 5, 6]
        assert 1 in source.state_dict()["waiting"]
        workers.held[1].set()
        while not all(future.done() for future in source._flying):
            time.sleep(0.001)
        rollout = source.rollout(3)
        assert rollout.metrics["team/episodes_dropped"] == 1
        assert 1 not in numbers_of(rollout)
        assert 1 not in source.state_dict()["waiting"]


@pytest.mark.parametrize("staleness", [1, 2])
@pytest.mark.parametrize("too_old", [False, True])
def test_the_oldest_prompt_groups_that_are_trained_on_are_of_the_largest_staleness(staleness, too_old):
    workers = Scripted(held=[1])
    with stream(workers, staleness) as source:
        updates = staleness + too_old  # those that go by before prompt group 1 arrives
        for update in range(updates):
            source.rollout(update)
        workers.held[1].set()
        while not all(future.done() for future in source._flying):
            time.sleep(0.001)
        rollout = source.rollout(updates)
    assert (1 in numbers_of(rollout)) == (not too_old)
    assert rollout.metrics["team/episodes_dropped"] == too_old
    assert rollout.metrics["team/staleness_max"] <= staleness


def test_a_resume_loses_and_doubles_no_episode():
    workers = Scripted(held=[1])
    with stream(workers) as source:
        before = [*numbers_of(source.rollout(0)), *numbers_of(source.rollout(1))]
        state = source.state_dict()
    after = []
    with stream(Scripted()) as source:
        source.load_state_dict(state)
        for update in range(2, 5):
            after += numbers_of(source.rollout(update))
    assert 1 not in before
    assert sorted(before + after) == list(range(10))


def test_dynamic_sampling_goes_on_in_the_stream():
    class Even(Scripted):
        def group(self, number):
            return replace(super().group(number), differing=(number % 2 == 0,))

    with stream(Even(count=1), extra_rounds=2) as source:
        rollout = source.rollout(0)
    # places 0..5 of the stream are the first groups of updates 0, 1, 2: each has three rounds of two numbers
    assert [group.episodes[0].group for group in rollout.experience.first] == [0, 1]
    assert [group.episodes[0].group for group in rollout.experience.batch] == [0, 6]


def test_stale_episodes_are_learned_from_with_importance_weights(tmp_path):
    kind = (2, (), settings_for(2, staleness=1))
    train(tmp_path / "run", kind, updates=3)
    lines = read_metrics(tmp_path / "run")
    assert [line["team/staleness_max"] for line in lines[1:]] == [1, 1]
    assert "buyer_0/importance" not in lines[0]
    weights = [line["buyer_0/importance"] for line in lines[1:]]
    assert all(0 < weight <= SETTINGS.importance_cap for weight in weights)
    assert any(abs(weight - 1) > 1e-4 for weight in weights)  # the policy had moved since


def test_a_failure_of_a_worker_ends_the_run_and_loses_no_prompt_group():
    class Failing(Scripted):
        def play(self, numbers):
            raise RuntimeError("the server is gone")

    for staleness in (0, 1):
        with stream(Failing(), staleness) as source:
            with pytest.raises(RuntimeError, match="the server is gone"):
                source.rollout(0)
            assert 0 in source.state_dict().get("waiting", [0])  # without staleness there is no stream


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"rollout_workers": -1}, "rollout_workers = -1, wanted >= 0"),
        ({"max_staleness": -1}, "max_staleness = -1, wanted >= 0"),
        ({"worker_gpus": -0.5}, "worker_gpus"),
        ({"ray": ""}, "ray = '', wanted local, auto"),
        ({"ray": "none", "rollout_workers": 2}, "give --ray local, auto or HOST:PORT"),
        ({"ray": "none", "max_staleness": 1}, "give --ray local, auto or HOST:PORT"),
    ],
)
def test_settings_out_of_range(knobs, message):
    with pytest.raises(SettingsError, match=message):
        RolloutSettings(**{"ray": "local"} | knobs)


@pytest.mark.parametrize(
    ("knobs", "reason"),
    [
        ({"positive_nll": 0.1}, "the likelihood has no importance weight"),
        ({"compounding": "happo"}, "compounding = 'happo'"),
    ],
)
def test_algorithms_that_cannot_correct_for_staleness(knobs, reason):
    settings = LearnerSettings(**knobs)
    with pytest.raises(SettingsError, match=f"max_staleness = 1: .*wanted 0 .*{reason}"):
        refuse_uncorrected(settings, 1)
    refuse_uncorrected(settings, 0)


@pytest.mark.parametrize("algorithm", ["marft-a", "marft-t", "grpo", "gspo"])
def test_algorithms_that_can(algorithm):
    refuse_uncorrected(learner_settings(algorithm), 4)


# ---------------------------------------------------------------------- the cluster, before one is there

TRAIN = ["train", "--env", "marft/math_duo-v0", "--data", "embedded:stories", "--model", "tiny", "--updates", "1"]


def error_of(capsys, tmp_path, *flags):
    assert main([*TRAIN, "--out", str(tmp_path / "run"), *flags]) == 1
    assert list(tmp_path.iterdir()) == []
    return capsys.readouterr().err


def test_without_ray_the_extra_is_named(capsys, tmp_path, monkeypatch):
    missing = {"ray"}
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in missing else find(name))
    assert pip_install("ray") in error_of(capsys, tmp_path, "--ray", "local")
    missing = {"pyarrow"}
    error = error_of(capsys, tmp_path, "--ray", "local", "--learners", "2")
    assert f"--learners 2 needs Ray Train, which misses pyarrow: {pip_install('ray')}" in error


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--ray", "127.0.0.1:9"], "--ray 127.0.0.1:9: no Ray cluster answers"),
        (["--ray", "ray://host:10001"], "wanted local, auto or HOST:PORT"),
        (["--ray", "somewhere"], "wanted local, auto or HOST:PORT"),
        (["--rollout-workers", "2"], "give --ray local, auto or HOST:PORT"),
        (["--ray", "local", "--rollout-workers", "-1"], "rollout_workers = -1, wanted >= 0"),
        (["--ray", "local", "--rollout-workers", "0", "--max-staleness", "1"], "wanted rollout_workers >= 1"),
        (["--learners", "0"], "learners = 0, wanted >= 1"),
        (["--learners", "2"], "learners = 2 are processes of a Ray cluster: give --ray local, auto or HOST:PORT"),
        (["--learners", "2", "--ray", "127.0.0.1:9"], "--ray 127.0.0.1:9: no Ray cluster answers"),
        (["--learners", "2", "--ray", "local", "--device", "cpu"], "leave out --device"),
        (["--ray", "local", "--max-staleness", "-1"], "max_staleness = -1, wanted >= 0"),
        (["--ray", "local", "--max-staleness", "1", "--algorithm", "happo"], "cannot correct for episodes of earlier"),
        (["--ray", "local", "--rollout-workers", "3", "--sampler", "http://a/v1,http://b/v1"], "found 2 servers for 3"),
    ],
)
def test_bad_flags_are_refused_before_anything_starts(capsys, tmp_path, flags, message):
    assert message in error_of(capsys, tmp_path, *flags)
    assert "ray" not in sys.modules or not sys.modules["ray"].is_initialized()


@pytest.mark.parametrize(("answer", "message"), [(b"", "timed out"), (b"HTTP/1.1 400 Bad Request", "another server")])
def test_a_port_where_something_else_listens_is_told_from_a_cluster(capsys, tmp_path, monkeypatch, answer, message):
    monkeypatch.setattr(ray_workers, "ANSWER_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            connection, _ = server.accept()
            connection.sendall(answer)
            done.wait(20)
            connection.close()

        done = threading.Event()
        thread = threading.Thread(target=serve)
        thread.start()
        error = error_of(capsys, tmp_path, "--ray", f"127.0.0.1:{server.getsockname()[1]}")
        done.set()
        thread.join()
    assert message in error
