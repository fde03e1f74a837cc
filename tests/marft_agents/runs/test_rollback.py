"""Rollback and divergence: what is undone, what goes on, and that a resumed run is the uninterrupted one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from marft_agents.learning.divergence_error import DivergenceError
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.monitoring.alarm_rules import HealthSettings
from marft_agents.monitoring.alarms import Alarm
from marft_agents.runs import checkpoint
from marft_agents.runs.checkpoint import CheckpointError
from marft_agents.runs.rollback import Guard
from marft_agents.runs.run_folder import RunFolder, read_metrics
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.trainer import Trainer
from marft_agents.setting_fields import SettingsError
from tests.helpers.fakes import Market, Probe, word_team
from tests.helpers.naive import BRIEF_CRITIC
from tests.helpers.rows import rows_of
from tests.helpers.run_outcome import outcome

UPDATES = 5


def train(
    folder: Path, updates: int = UPDATES, *, health=None, lr=1.0, game=Market, on_alarm=None, **settings
) -> Trainer:
    """Train a run that explodes, from its newest checkpoint if there is one."""
    team = word_team(list(game().possible_agents))
    plan = {"critic_lr": 1e-2, "ppo_epochs": 2, "mini_batches": 2, "lr_schedule": "cosine"} | BRIEF_CRITIC | settings
    learner = Learner(team, LearnerSettings(policy_lr=lr, **plan), seed=3, total_updates=UPDATES)
    done = checkpoint.load(folder, team, learner) if checkpoint.latest(folder / "checkpoints") else 0
    records = RunFolder(folder, {}, resume_at=done)
    health = health or HealthSettings(rollback=3, alarm_window=2)
    schedule = TrainingSchedule(updates=updates, groups=4, group_size=2, keep=1)
    trainer = Trainer(game, team, learner, schedule, folder=records, health=health, on_alarm=on_alarm)
    trainer.run()
    records.close()
    return trainer


def alarms_in(folder: Path) -> list[dict]:
    lines = (folder / "alarms.jsonl").read_text().splitlines()
    return [json.loads(line, parse_constant=pytest.fail) for line in lines]


def left_behind(folder: Path):
    newest = checkpoint.resolve(folder)
    return outcome(folder) | {"alarms": alarms_in(folder), "guard": checkpoint.guard_of(newest)}


def adapters(path: Path):
    return {
        p.parent.name: {k: v.tolist() for k, v in load_file(p).items()} for p in sorted(path.rglob("*.safetensors"))
    }


@pytest.fixture(scope="module")
def exploded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exploded") / "run"
    return folder, train(folder)


def test_the_run_that_is_tested_here_does_explode(exploded):
    folder, trainer = exploded
    rollbacks = [alarm for alarm in alarms_in(folder) if alarm["kind"] == "rollback"]
    assert trainer.guard.rollbacks == len(rollbacks) >= 2
    assert {alarm["kind"] for alarm in alarms_in(folder)} >= {"explosion", "rollback"}
    assert trainer.learner.step_scale == 0.5 ** len(rollbacks)
    assert max(m["team/rollbacks"] for m in read_metrics(folder)) == len(rollbacks)


def test_a_rollback_restores_what_was_learned_and_moves_on_in_the_data(tmp_path):
    folder = tmp_path / "run"
    trainer = train(folder, 1, health=HealthSettings(rollback=1, alarm_window=2))
    assert [alarm["kind"] for alarm in alarms_in(folder)][-1] == "rollback"
    initial, restored = (folder / "checkpoints" / checkpoint.name_of(n) for n in (0, 1))
    assert adapters(restored) == adapters(initial)
    before, after = (torch.load(path / "learner.pt", weights_only=True) for path in (initial, restored))
    assert (before["updates"], after["updates"]) == (0, 1)
    assert after["optimizers"]["buyer_0"]["state"] == before["optimizers"]["buyer_0"]["state"] == {}
    assert trainer.guard.health.series == {}  # what the undone update showed is no history

    train(folder, 2, health=HealthSettings(rollback=1, alarm_window=2))
    episodes = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    seeds = [{e["seed"] for e in episodes if e["update"] == update} for update in (0, 1)]
    assert not seeds[0] & seeds[1]


def test_the_step_size_is_really_halved(tmp_path):
    """Adam's first step moves every parameter by the step size, whatever the gradient."""
    moved = {}
    for rollbacks in (0, 2):
        team = word_team(["buyer_0", "seller_0"])
        learner = Learner(team, LearnerSettings(policy_lr=1e-2, max_grad_norm=1e9, adam_epsilon=1e-30))
        learner.step_scale = 0.5**rollbacks
        tensors = team.local_agent("buyer_0").base.parameters("buyer_0")
        before = {name: tensor.detach().clone() for name, tensor in tensors.items()}
        Trainer(Market, team, learner, TrainingSchedule(updates=1, groups=4, group_size=1)).run()
        moved[rollbacks] = max((tensors[name] - before[name]).abs().max().item() for name in before)
    assert moved[0] == pytest.approx(1e-2, rel=1e-3)
    assert moved[2] == pytest.approx(moved[0] / 4, rel=1e-3)


@pytest.mark.parametrize("k", [k if k == 2 else pytest.param(k, marks=pytest.mark.long) for k in range(1, UPDATES)])
def test_k_updates_and_the_rest_are_all_updates_whatever_was_rolled_back(tmp_path, exploded, k):
    train(tmp_path / "run", k)
    train(tmp_path / "run")
    assert left_behind(tmp_path / "run") == left_behind(exploded[0])


def test_a_run_stopped_amid_a_rollback_does_it_again(tmp_path, exploded):
    def stop(alarm):
        if alarm.kind == "rollback":
            raise KeyboardInterrupt

    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "run", on_alarm=stop)
    train(tmp_path / "run")
    assert left_behind(tmp_path / "run") == left_behind(exploded[0])


def test_a_run_without_rollbacks_only_raises_its_alarms(tmp_path):
    trainer = train(tmp_path / "run", 2, health=HealthSettings(alarm_window=2))
    assert "explosion" in {alarm["kind"] for alarm in alarms_in(tmp_path / "run")}
    assert trainer.learner.step_scale == 1.0
    kept = [path.name for path in (tmp_path / "run" / "checkpoints").glob("update-*")]
    assert kept == ["update-00002"]
    assert "team/rollbacks" not in read_metrics(tmp_path / "run")[0]


def test_a_healthy_run_is_the_same_with_rollbacks_allowed(tmp_path):
    for name, rollback in (("without", 0), ("with", 3)):
        train(tmp_path / name, 3, lr=5e-3, health=HealthSettings(rollback=rollback))
    with_, without = (outcome(tmp_path / name) for name in ("with", "without"))
    for row in with_["metrics"]:
        assert row.pop("team/rollbacks") == 0.0
    assert with_ == without
    assert alarms_in(tmp_path / "with") == []


# ------------------------------------------------------------------ where to


def guard_with(tmp_path, *numbers, since=0, **settings):
    team = word_team(["buyer_0"])
    folder = RunFolder(tmp_path, {})
    folder.close()
    for number in numbers:
        (folder.checkpoints / checkpoint.name_of(number)).mkdir(parents=True)
    guard = Guard(team, Learner(team, LearnerSettings()), HealthSettings(rollback=2, **settings), folder=folder)
    guard.since = since
    return guard


@pytest.mark.parametrize(
    ("kind", "since", "wanted"), [("explosion", 0, 8), ("collapse", 0, 6), ("collapse", 7, 7), ("divergence", 9, 9)]
)
def test_it_goes_back_to_before_the_trouble_but_not_to_before_the_last_rollback(tmp_path, kind, since, wanted):
    guard = guard_with(tmp_path, *range(5, 11), since=since, alarm_window=3)
    cause = Alarm(9, "buyer_0", kind, "kl", 1.0, 0.5, "")
    assert guard._good(cause).name == checkpoint.name_of(wanted)
    assert guard.keep == 4


def test_a_missing_checkpoint_is_an_error_that_says_which(tmp_path):
    guard = guard_with(tmp_path, 9, 10)
    with pytest.raises(CheckpointError, match=r"rollback at update 10: .* none of update-00000 to update-00004"):
        guard._good(Alarm(9, "buyer_0", "collapse", "entropy", 1.0, 0.5, ""))


def test_a_run_that_kept_few_checkpoints_goes_back_to_the_oldest(tmp_path):
    """Rollbacks were switched on when it was resumed."""
    folder = guard_with(tmp_path, 9, 10).folder
    learner = Learner(word_team(["buyer_0"]), LearnerSettings())
    learner.updates = 11
    guard = Guard(learner.team, learner, HealthSettings(rollback=2), folder=folder)
    assert guard._good(Alarm(11, "buyer_0", "collapse", "entropy", 1.0, 0.5, "")).name == checkpoint.name_of(9)


def test_rollbacks_need_a_folder():
    team = word_team(["buyer_0"])
    with pytest.raises(SettingsError, match="rollback = 1 goes back to checkpoints: wanted a run folder"):
        Guard(team, Learner(team, LearnerSettings()), HealthSettings(rollback=1))


# ------------------------------------------------------------------ what diverges


def test_a_nan_stops_the_run_with_the_actions_it_came_from(tmp_path):
    with pytest.raises(DivergenceError) as caught:
        train(tmp_path / "run", lr=1e30, health=HealthSettings())
    file = tmp_path / "run" / "divergence-1.json"  # the error counts updates from 1, records from 0
    assert f"are in {file}" in str(caught.value)
    assert str(caught.value).startswith("update 1: ")
    record = json.loads(file.read_text(), parse_constant=pytest.fail)
    assert record["update"] == 0
    assert len(record["actions"]) == len(caught.value.rows.actions) > 0
    for action, sample in zip(record["actions"], rows_of(caught.value.rows), strict=True):
        assert action["agent"] == sample.agent
        assert action["text"] == sample.action.text
        assert action["token_ids"] == sample.action.token_ids.tolist()
        assert action["prompt_ids"] == sample.action.prompt_ids.tolist()
        assert "digit" in action["prompt"]
        assert np.allclose(action["logprobs"], sample.action.logprobs)
        assert np.allclose(action["advantages"], sample.advantages)
    assert read_lines(tmp_path / "run" / "metrics.jsonl") == 0


def read_lines(path: Path) -> int:
    return path.read_text().count("\n")


class Unpayable(Probe):
    """Pays NaN."""

    speakers = ("solo_0",)

    def draw(self, rng):
        self.answer = "0"

    def observe(self, agent):
        return "digit 0"

    def step(self, action):
        super().step(action)
        if action is not None:
            self.rewards = dict.fromkeys(self.agents, float("nan"))


def test_a_reward_that_is_no_number_is_in_the_record(tmp_path):
    with pytest.raises(DivergenceError, match=r"divergence-1\.json"):
        train(tmp_path / "run", lr=1e-3, game=Unpayable, health=HealthSettings())
    record = json.loads((tmp_path / "run" / "divergence-1.json").read_text(), parse_constant=pytest.fail)
    assert record["actions"][0]["reward"] == "nan"


def test_a_nan_is_rolled_back_as_often_as_allowed(tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(DivergenceError, match=r"^update 3: .*divergence-3\.json"):
        train(folder, lr=1e30, health=HealthSettings(rollback=2, alarm_window=2))
    alarms = alarms_in(folder)
    assert [alarm["kind"] for alarm in alarms] == ["divergence", "rollback"] * 2
    assert [alarm["sentence"].split(", ")[-1] for alarm in alarms[1::2]] == ["for a divergence)"] * 2
    assert f"are in {folder / 'divergence-1.json'}" in alarms[0]["sentence"]
    assert [line["update"] for line in read_metrics(folder)] == [0, 1]
    assert sorted(path.name for path in folder.glob("divergence-*")) == [f"divergence-{n}.json" for n in (1, 2, 3)]
    assert adapters(folder / "checkpoints" / checkpoint.name_of(2)) == adapters(
        folder / "checkpoints" / checkpoint.name_of(0)
    )
