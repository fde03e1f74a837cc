"""`marft train --resume`: nothing of the run can be changed but its length, which is recorded."""

import argparse
import json
import re
from itertools import chain

import pytest

from baselines.cli.main import build_parser, main
from baselines.cli.progress import TrainingTable
from baselines.cli.train import WITH_RESUME, experiment_of
from baselines.experiment.experiment import Experiment
from marft_agents.runs.run_folder import read_metrics

TRAIN = [
    *["train", "--env", "marft/math_duo-v0", "--data", "embedded:stories", "--model", "tiny", "--device", "cpu"],
    *["--groups", "1", "--group-size", "2", "--max-new-tokens", "4"],
]


def train_flags():
    [commands] = [a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction)]
    actions = commands.choices["train"]._actions
    return {a.dest: a for a in actions if a.dest not in (*WITH_RESUME, "help", "help_all", "resume")}


def some_value(action):
    """Return what argparse takes for a flag: the first where it has a choice."""
    if isinstance(action, argparse.BooleanOptionalAction) or action.nargs == 0:
        return []
    return [str(next(iter(action.choices)))] if action.choices else ["1"]


@pytest.fixture
def trained(tmp_path):
    assert main([*TRAIN, "--updates", "2", "--out", str(tmp_path / "run")]) == 0
    return tmp_path / "run"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A run folder as one that was killed before its first checkpoint left it."""
    arguments = build_parser().parse_args([*TRAIN, "--out", "nowhere", "--updates", "1"])
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "config.json").write_text(json.dumps(experiment_of(arguments).to_dict()))
    return folder


def test_every_flag_of_the_run_itself_is_refused(capsys, recorded):
    flags = {action.option_strings[0]: some_value(action) for action in train_flags().values()}
    assert main(["train", "--resume", str(recorded), *chain(*((flag, *value) for flag, value in flags.items()))]) == 1
    error = capsys.readouterr().err
    changeable = "--updates, --epochs, --budget-tokens, --device, --ray, --learners, --learner-cpus, --learner-gpus, "
    changeable += "--shard-base"
    refused = re.search(rf"; (--.+) cannot be changed \(only {changeable}\)", error)[1]
    assert set(refused.split(", ")) == set(flags)
    assert str(recorded / "config.json") in error


def test_the_flag_is_refused_also_where_it_says_what_is_so_anyway(capsys, recorded):
    assert main(["train", "--resume", str(recorded), "--algorithm", "marft-a", "--model", "tiny"]) == 1
    assert "--algorithm, --model cannot be changed" in capsys.readouterr().err


def test_a_longer_run_is_recorded_before_it_goes_on(capsys, trained, monkeypatch):
    def interrupted(table, update, metrics):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(TrainingTable, "add", interrupted)
        assert main(["train", "--resume", str(trained), "--updates", "4"]) == 130
    assert Experiment.load(trained).schedule.updates == 4
    assert main(["train", "--resume", str(trained)]) == 0
    assert "4 updates" in capsys.readouterr().out
    assert (trained / "checkpoints" / "update-00004").is_dir()


def test_a_resume_that_changes_nothing_leaves_the_record_as_it_is(trained):
    old = json.loads((trained / "config.json").read_text())
    del old["sampler"]  # as runs of before have it
    (trained / "config.json").write_text(json.dumps(old))
    assert main(["train", "--resume", str(trained), "--device", "cpu"]) == 0
    assert json.loads((trained / "config.json").read_text()) == old


def test_fewer_updates_than_are_done_are_refused(capsys, trained):
    before = (trained / "config.json").read_bytes()
    assert main(["train", "--resume", str(trained), "--updates", "1"]) == 1
    error = capsys.readouterr().err
    assert "found 1, wanted 2 or more" in error
    assert str(trained) in error
    assert (trained / "config.json").read_bytes() == before


def test_a_budget_of_tokens_ends_a_run_and_a_larger_one_continues_it(capsys, tmp_path):
    run = tmp_path / "run"
    assert main([*TRAIN, "--budget-tokens", "1", "--out", str(run)]) == 0
    printed = capsys.readouterr()
    spent = read_metrics(run)[-1]["tokens_total"]
    assert f"{run}: 1 updates with {spent:.0f} of 1 tokens; success" in printed.out
    assert f"update 1, {spent:.0f}/1 tokens: success" in printed.err
    more = f"{spent + 1:.0f}"
    assert main(["train", "--resume", str(run), "--budget-tokens", more]) == 0
    assert [line["update"] for line in read_metrics(run)] == [0, 1]
    assert Experiment.load(run).schedule.budget_tokens == int(more)
    assert main(["train", "--resume", str(run)]) == 0  # over: nothing to do, and nothing to refuse
    assert len(read_metrics(run)) == 2
    capsys.readouterr()
    assert main(["train", "--resume", str(run), "--budget-tokens", more, "--updates", "1"]) == 1
    assert main(["train", "--resume", str(run), "--budget-tokens", "2"]) == 1
    updates, tokens = capsys.readouterr().err.splitlines()
    assert "--updates counts those of the whole run: found 1, wanted 2 or more" in updates
    assert "--budget-tokens counts those of the whole run: found 2, wanted" in tokens
    assert Experiment.load(run).schedule.updates is None


@pytest.mark.parametrize(("name", "lines"), [("metrics.jsonl", 2), ("episodes.jsonl", 4)])
def test_records_that_are_gone_are_said_and_the_run_goes_on(capsys, trained, name, lines):
    (trained / name).unlink()
    with pytest.warns(
        UserWarning, match=rf"{name} is missing \(found 0 lines of these updates, wanted {lines}\): the run"
    ):
        assert main(["train", "--resume", str(trained), "--updates", "3"]) == 0
    assert f"{trained}: 3 updates; success of the last" in capsys.readouterr().out
    assert main(["train", "--resume", str(trained), "--updates", "4"]) == 0  # what is there now is whole


def test_a_finished_run_without_metrics_has_no_result(capsys, trained):
    (trained / "metrics.jsonl").write_text("")
    with pytest.warns(UserWarning, match=r"metrics\.jsonl was cut or changed"):
        assert main(["train", "--resume", str(trained)]) == 1
    assert f"{trained}/metrics.jsonl has lost the lines of all" in capsys.readouterr().err
