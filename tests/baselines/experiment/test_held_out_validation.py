"""`--validate-every` and `--epochs` as a user meets them: what is refused, recorded, drawn and evaluated."""

import json

import pytest
import torch  # noqa: F401 - else the first command says that it loads it

import marft_envs
from baselines.cli.main import main
from baselines.experiment.environments import factory, scenarios, tasks_of
from baselines.experiment.held_out_validation import ValidationSettings, held_out_tasks
from baselines.experiment.learning_curve import draw_curve
from marft_agents.runs.run_folder import read_metrics
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.setting_fields import SettingsError
from tests.helpers.fakes import CopyDigit, word_team

DUO = "marft/gsm8k_duo-v0"
TRAIN = ["train", "--env", DUO, "--device", "cpu"]
STORIES = ["--data", "embedded:stories"]
TINY = ["--model", "tiny", "--groups", "1", "--group-size", "2", "--max-new-tokens", "2"]


def error_of(capsys, *flags):
    assert main([str(flag) for flag in flags]) == 1
    error = capsys.readouterr().err.splitlines(keepends=True)[-1]  # what ran before in this test may have been logged
    assert error.startswith("marft: error: ")
    assert error.count("\n") == 1
    return error


def settings(on, **others):
    return ValidationSettings(validate_every=1, validate_on=on, **others)


REFUSED = {
    "the split of training": ([*STORIES, "--validate-on", "train"], "is the split that is trained on"),
    "with a limit": ([*STORIES, "--validate-on", "train:5"], "--validate-training-split"),
    "no split of that name": ([*STORIES, "--validate-on", "dev"], "dev"),
    "no limit": ([*STORIES, "--validate-on", "test:many"], "wanted SPLIT or SPLIT:LIMIT"),
    "a limit of zero": ([*STORIES, "--validate-on", "test:0"], "wanted SPLIT or SPLIT:LIMIT"),
    "negative": ([*STORIES, "--validate-every", "-1"], "validate_every = -1, wanted >= 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_before_the_model_and_nothing_is_left(capsys, tmp_path, case):
    flags, words = REFUSED[case]
    every = ["--validate-every", "1", "--model", "no-such-model", "--out", tmp_path / "out"]
    assert words in error_of(capsys, *TRAIN, *every, *flags)
    assert list(tmp_path.iterdir()) == []


def test_one_file_is_every_split(capsys, tmp_path):
    file = tmp_path / "mine.jsonl"
    file.write_text('{"question": "2+2?", "answer": "4"}\n{"question": "3+3?", "answer": "6"}\n')
    flags = [*TRAIN, "--data", file, "--validate-every", "1", "--model", "no-such-model", "--out", tmp_path / "out"]
    assert "all 2 tasks are also trained on" in error_of(capsys, *flags)
    assert "'no-such-model'" in error_of(capsys, *flags, "--validate-training-split")  # allowed: the model is next


def test_tasks_that_are_in_both_splits_are_counted(tmp_path):
    rows = {"train": ["2+2?", "3+3?"], "test": ["2+2?", "4+4?"]}
    for split, questions in rows.items():
        lines = [json.dumps({"question": q, "answer": str(2 * int(q[0]))}) + "\n" for q in questions]
        (tmp_path / f"{split}.jsonl").write_text("".join(lines))
    make = factory(DUO, {"data": str(tmp_path)})
    told = []
    found = held_out_tasks(DUO, {"data": str(tmp_path)}, settings("test"), make(), warn=told.append)
    assert found.options == [{"index": 0}, {"index": 1}]
    assert told == ["validation: 1 of 2 tasks are also trained on"]


def test_an_environment_without_splits_plays_seeds():
    marft_envs.register("test/copy_digit-v0", CopyDigit, force=True)
    with pytest.raises(SettingsError, match="has no splits; wanted seeds:LIMIT"):
        held_out_tasks("test/copy_digit-v0", {}, settings("test"), CopyDigit(), warn=pytest.fail)
    found = held_out_tasks("test/copy_digit-v0", {}, settings("seeds:3"), CopyDigit(), warn=pytest.fail)
    assert found.options == [{"seed": 0}, {"seed": 1}, {"seed": 2}]
    with pytest.raises(ValueError, match=r"--epochs needs an environment with a list of tasks; CopyDigit has none"):
        tasks_of(CopyDigit(), "epochs")


def test_a_validated_run_is_evaluated_at_its_best(capsys, tmp_path):
    run = tmp_path / "run"
    flags = [*TRAIN, *STORIES, *TINY, "--updates", "2", "--validate-every", "2", "--validate-on", "test:3"]
    assert main([*flags, "--validate-greedy", "--out", str(run)]) == 0
    lines = read_metrics(run)
    assert lines[0]["validation_before/episodes"] == lines[1]["validation/episodes"] == 3
    assert (run / "checkpoints" / "best").resolve().name == "update-00000"  # nothing was solved: the earliest stays
    flags = ["eval", "--env", DUO, *STORIES, "--limit", "3", "--temperature", "0", "--checkpoint"]
    assert main([*flags, f"{run}@best", "--out", str(tmp_path / "best")]) == 0
    record = json.loads((tmp_path / "best" / "evaluation.json").read_text())
    assert record["checkpoint"].endswith("checkpoints/update-00000")
    assert record["accuracy"] == lines[0]["validation_before/success"]
    assert record["tokens_per_episode"] == lines[0]["validation_before/tokens"]
    capsys.readouterr()
    assert "there are update-00000" in error_of(capsys, *flags, f"{run}@update-9", "--out", tmp_path / "x")


class Endless(CopyDigit):
    """Copies a digit where it is trained on, and never ends on held-out tasks."""

    def __init__(self, split="train"):
        super().__init__()
        self.split = split

    def following(self, agent):
        return super().following(agent) or (list(self.order) if self.split == "test" else [])


def test_a_held_out_game_that_does_not_end_is_a_failed_episode():
    marft_envs.register("test/endless-v0", Endless, force=True)
    env = Endless()
    found = held_out_tasks("test/endless-v0", {}, settings("test:2"), env, warn=pytest.fail)
    team, schedule = word_team(env.possible_agents), TrainingSchedule(max_turns=4)
    told = []
    metrics = found.validator(team, settings("test:2"), schedule, warn=told.append).metrics()
    assert (metrics["validation/failed"], "validation/success" in metrics) == (2, False)
    [error] = told
    assert error.startswith("validation: 2 of 2 episodes failed; the first: ")
    assert "4 turns were played and the game is not over" in error


def test_validations_are_drawn(tmp_path):
    history = [{"update": u, "team/success": 0.5} for u in range(4)]
    plain = draw_curve({"a": history}, tmp_path / "a.png").read_bytes()
    history[1] |= {"validation/success": 0.5, "validation/low": 0.2, "validation/high": 0.7}
    assert draw_curve({"a": history}, tmp_path / "b.png").read_bytes() != plain


# -------------------------------------------------------------------- epochs


def test_epochs_play_every_task_once_and_can_be_made_longer(capsys, tmp_path):
    file, run = tmp_path / "mine.jsonl", tmp_path / "run"
    file.write_text("".join(json.dumps({"question": f"{n}+1?", "answer": str(n + 1)}) + "\n" for n in range(5)))
    tiny = [*TINY[:2], "--groups", "2", "--group-size", "2", "--max-new-tokens", "2"]
    assert main([*TRAIN, *tiny, "--data", str(file), "--epochs", "1", "--out", str(run)]) == 0
    assert "3 updates" in capsys.readouterr().out
    assert json.loads((run / "config.json").read_text())["schedule"]["updates"] == 3

    def tasks():
        lines = [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]
        return [line["game"]["task_id"] for line in lines[::2]]

    assert len(tasks()) == 6
    assert len(set(tasks()[:5])) == 5
    error = error_of(capsys, "train", "--resume", run, "--updates", 9)
    assert "counts epochs: to make it longer give --epochs" in error
    assert main(["train", "--resume", str(run), "--epochs", "2"]) == 0
    assert len(tasks()) == 10
    assert all(tasks().count(task) == 2 for task in set(tasks()))
    assert "found 3 (1 epochs), wanted 5 or more" in error_of(capsys, "train", "--resume", run, "--epochs", 1)


def test_a_run_of_updates_is_not_made_one_of_epochs(capsys, tmp_path):
    run = tmp_path / "run"
    assert main([*TRAIN, *STORIES, *TINY, "--updates", "1", "--out", str(run)]) == 0
    error = error_of(capsys, "train", "--resume", run, "--epochs", 2)
    assert "counts updates: to make it longer give --updates" in error


def test_updates_and_epochs_exclude_each_other(capsys, tmp_path):
    error = error_of(capsys, *TRAIN, *STORIES, "--epochs", 1, "--updates", 2, "--out", tmp_path / "x")
    assert "updates follow from epochs" in error
    assert list(tmp_path.iterdir()) == []


def test_a_limit_spreads_over_all_tasks():
    env = marft_envs.make(DUO, data="embedded:stories", split="test")
    assert [option["index"] for option in scenarios(env, 4)] == [0, 50, 100, 150]
    assert [option["index"] for option in scenarios(env, None)] == list(range(200))
    assert len(scenarios(env, 1000)) == 200
    trained = marft_envs.make(DUO, data="embedded:stories", split="train")
    found = held_out_tasks(DUO, {"data": "embedded:stories"}, settings("test:4"), trained, warn=pytest.fail)
    assert found.options == scenarios(env, 4)
