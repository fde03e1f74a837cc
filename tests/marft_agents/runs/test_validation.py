"""Validation while a team trains: what is recorded, what is kept as the best, and that training does not notice."""

from __future__ import annotations

import json
import os

import pytest

from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.rollouts.prompt_groups import GroupSettings
from marft_agents.rollouts.rollout import tasks_of_update, training_episodes
from marft_agents.runs import checkpoint
from marft_agents.runs.checkpoint import CheckpointError
from marft_agents.runs.evaluation import evaluate
from marft_agents.runs.run_folder import RunFolder, read_metrics
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.trainer import Trainer
from marft_agents.runs.validation import Best, Validator, better, validations
from marft_agents.setting_fields import SettingsError
from marft_agents.trajectory import Trajectory
from tests.helpers.fakes import CopyDigit, Market, word_team
from tests.helpers.naive import BRIEF_CRITIC
from tests.helpers.played_groups import gather

SCENARIOS = [{"seed": i} for i in range(6)]


class Scripted(Validator):
    """Reports the successes that a test wants, one after the other."""

    def metrics(self, prefix="validation"):
        return super().metrics(prefix) | {f"{prefix}/success": self.policy.script.pop(0)}


def run(folder, updates, every=0, script=None, **schedule):
    team = word_team(["speaker_0", "actor_0"])
    learner = Learner(team, LearnerSettings(policy_lr=1e-2, critic_lr=1e-2, **BRIEF_CRITIC), seed=4, total_updates=4)
    done = checkpoint.load(folder, team, learner) if checkpoint.latest(folder / "checkpoints") else 0
    validator = None
    if script is not None:
        team.script = script
        validator = Scripted(CopyDigit, team, SCENARIOS, every=every)
    elif every:
        validator = Validator(CopyDigit, team, SCENARIOS, every=every)
    records = RunFolder(folder, {}, resume_at=done)
    plan = TrainingSchedule(updates=updates, **{"groups": 3, "group_size": 1, **schedule})
    Trainer(CopyDigit, team, learner, plan, folder=records, validator=validator).run()
    records.close()
    return team


def files_of(folder, updates):
    newest = folder / "checkpoints" / f"update-{updates:05d}"
    return {path.parent.name + path.name: path.read_bytes() for path in newest.rglob("*.safetensors")}


def timeless(folder):
    return [{k: v for k, v in m.items() if not k.startswith("seconds/")} for m in read_metrics(folder)]


def test_training_does_not_notice_validation(tmp_path):
    run(tmp_path / "plain", 3)
    run(tmp_path / "validated", 3, every=1)
    assert files_of(tmp_path / "plain", 3) == files_of(tmp_path / "validated", 3) != {}
    plain, validated = ((tmp_path / name / "episodes.jsonl").read_bytes() for name in ("plain", "validated"))
    assert plain == validated


def test_it_is_due_before_the_first_update_every_n_and_at_the_end(tmp_path):
    run(tmp_path, 5, every=2)
    lines = read_metrics(tmp_path)
    assert [line["update"] for line in lines] == list(range(5))
    assert [done for done, _ in validations(lines)] == [0, 2, 4, 5]
    assert ["validation_before/success" in line for line in lines] == [True, False, False, False, False]
    names = {"success", "return", "low", "high", "tokens", "episodes", "failed"}
    found = {n.split("/")[1] for n in lines[1] if n.startswith("validation/")}
    assert {name for name in found if not name.endswith("_sum")} == names
    assert lines[1]["validation/episodes"] == 6
    assert lines[1]["seconds/validation"] > 0
    assert lines[0]["seconds/validation_before"] > 0


def test_it_plays_the_path_of_evaluation(tmp_path):
    team = run(tmp_path, 2, every=2)
    played = evaluate(CopyDigit, team, SCENARIOS)
    (_, last) = validations(read_metrics(tmp_path))[-1]
    assert last == played.accuracy
    assert read_metrics(tmp_path)[-1]["validation/tokens"] == played.tokens_per_episode


def test_halves_make_a_whole_with_validation(tmp_path):
    run(tmp_path / "whole", 4, every=2)
    run(tmp_path / "halves", 2, every=2)
    run(tmp_path / "halves", 4, every=2)
    assert timeless(tmp_path / "halves") == timeless(tmp_path / "whole")
    assert files_of(tmp_path / "halves", 4) == files_of(tmp_path / "whole", 4)


# ---------------------------------------------------------------------- best


def test_the_earlier_of_two_equals_stays_the_best():
    best = better(None, 0, {"validation_before/success": 0.25}, "validation_before")
    assert best == Best(0, 0.25)
    assert better(best, 1, {"validation/success": 0.25}) == Best(0, 0.25)
    assert better(best, 2, {"validation/success": 0.5}) == Best(2, 0.5)
    assert better(best, 2, {}) is best  # nothing could be scored


def test_the_best_is_kept_whatever_else_is_dropped(tmp_path):
    run(tmp_path, 4, every=1, script=[0.1, 0.5, 0.3, 0.5, 0.2], keep=1)
    folder = tmp_path / "checkpoints"
    assert sorted(p.name for p in folder.iterdir()) == ["best", "update-00001", "update-00004"]
    assert os.readlink(folder / "best") == "update-00001"
    assert checkpoint.resolve(folder / "best" / ".").name in ("best", "update-00001")
    assert checkpoint.resolve(tmp_path).name == "update-00004"
    for name in (f"{tmp_path}@best", f"{tmp_path}@update-00001", f"{folder}@update-1"):
        assert checkpoint.resolve(type(tmp_path)(name)).name == "update-00001"


def test_a_resumed_run_goes_on_comparing(tmp_path):
    run(tmp_path, 2, every=1, script=[0.1, 0.5, 0.3], keep=1)
    run(tmp_path, 3, every=1, script=[0.4], keep=1)
    assert os.readlink(tmp_path / "checkpoints" / "best") == "update-00001"
    run(tmp_path, 4, every=1, script=[0.6], keep=1)
    assert os.readlink(tmp_path / "checkpoints" / "best") == "update-00004"
    assert [p.name for p in (tmp_path / "checkpoints").glob("update-*")] == ["update-00004"]


def test_a_link_that_a_kill_left_behind_is_set_right(tmp_path):
    run(tmp_path, 2, every=1, script=[0.1, 0.5, 0.7])
    link = tmp_path / "checkpoints" / "best"
    link.unlink()
    link.symlink_to("update-00001")  # as a kill between the checkpoint and the link leaves it
    assert checkpoint.resolve(type(tmp_path)(f"{tmp_path}@best")).name == "update-00002"
    run(tmp_path, 2, every=1, script=[])
    assert os.readlink(link) == "update-00002"


def test_a_checkpoint_that_is_not_there_is_named_with_those_that_are(tmp_path):
    run(tmp_path, 2)
    with pytest.raises(CheckpointError, match=r"@best: the run was not validated"):
        checkpoint.resolve(type(tmp_path)(f"{tmp_path}@best"))
    with pytest.raises(CheckpointError, match=r"@update-9: no complete .* update-00001, update-00002"):
        checkpoint.resolve(type(tmp_path)(f"{tmp_path}@update-9"))
    with pytest.raises(CheckpointError, match="@worst: no complete checkpoint of that name"):
        checkpoint.resolve(type(tmp_path)(f"{tmp_path}@worst"))


def test_where_every_episode_fails_nothing_is_claimed(tmp_path):
    class Broken(CopyDigit):
        def step(self, action):
            raise RuntimeError("out of order")

    metrics = Validator(Broken, word_team(["speaker_0", "actor_0"]), SCENARIOS, every=1).metrics()
    assert "validation/success" not in metrics
    assert metrics["validation/failed"] == 6


# -------------------------------------------------------------------- epochs

TASKS = [{"index": i} for i in range(7)]


def drawn(seed, updates, groups):
    return [task["index"] for u in range(updates) for task in tasks_of_update(seed, u, groups, TASKS)]


@pytest.mark.parametrize("groups", [1, 3, 7, 10])
def test_every_task_is_drawn_once_per_epoch(groups):
    order = drawn(3, 21, groups)
    for epoch in range(len(order) // 7):
        assert sorted(order[7 * epoch : 7 * epoch + 7]) == list(range(7))
    assert order[:7] != order[7:14]
    assert order[:7] != drawn(4, 21, groups)[:7]
    assert order == drawn(3, 21, groups)


def test_the_place_in_the_epoch_does_not_depend_on_how_updates_are_cut():
    assert drawn(3, 7, 3) == drawn(3, 3, 7) == drawn(3, 21, 1)


def test_updates_follow_from_epochs():
    assert TrainingSchedule(epochs=2, groups=4).for_tasks(7).updates == 4  # 14 draws, 4 at a time; two of a third epoch
    assert TrainingSchedule(updates=9).for_tasks(7).updates == 9
    team = word_team(["speaker_0", "actor_0"])
    learner = Learner(team, LearnerSettings(), total_updates=1)
    with pytest.raises(SettingsError, match="goes through a list of tasks, and none is given"):
        Trainer(CopyDigit, team, learner, TrainingSchedule(epochs=1))


def test_episodes_of_a_group_play_the_same_task():
    episodes = training_episodes(0, 2, 2, 3, TASKS[:2])
    assert [e.options["index"] for e in episodes] == [0, 0, 0, 1, 1, 1]
    assert all(e.options is None for e in training_episodes(0, 2, 2, 3))


def test_further_draws_of_dynamic_sampling_leave_the_order_alone():
    seen = []

    def play(episodes):
        seen.append([e.options and e.options["index"] for e in episodes])
        return [Trajectory(e.seed, e.group, (), True, False) for e in episodes]

    grouping = GroupSettings(3, 2, 2, extra_rounds=1, tasks=tuple(TASKS))
    for update in range(4):
        gather(play, update, grouping)
    first, further = seen[::2], seen[1::2]
    assert [index for update in first for index in update[::2]] == drawn(3, 4, 2)
    assert all(index is None for update in further for index in update)


def test_epochs_resume_exactly(tmp_path):
    class Offsets(Market):
        played: list = []  # noqa: RUF012

        def reset(self, seed=None, options=None):
            Offsets.played.append(options["offset"])
            super().reset(seed, options)

    def train(folder, updates):
        team = word_team(["buyer_0", "seller_0"])
        learner = Learner(team, LearnerSettings(policy_lr=1e-2, **BRIEF_CRITIC), seed=4, total_updates=4)
        done = checkpoint.load(folder, team, learner) if checkpoint.latest(folder / "checkpoints") else 0
        records = RunFolder(folder, {}, resume_at=done)
        schedule = TrainingSchedule(epochs=1, groups=2, group_size=1, num_envs=1)
        trainer = Trainer(Offsets, team, learner, schedule, folder=records, tasks=[{"offset": i} for i in range(5)])
        assert trainer.schedule.updates == 3
        for _ in range(updates):
            trainer.step()
        records.close()

    train(tmp_path / "whole", 3)
    whole, Offsets.played = Offsets.played, []
    train(tmp_path / "halves", 1)
    train(tmp_path / "halves", 2)
    assert Offsets.played == whole
    assert sorted(whole[:5]) == list(range(5))
    assert files_of(tmp_path / "halves", 3) == files_of(tmp_path / "whole", 3)


def test_metrics_are_json(tmp_path):
    run(tmp_path, 1, every=1)
    assert [json.loads(line)["update"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == [0]
