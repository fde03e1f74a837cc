"""Several learners through the TorchTrainer of Ray Train, in a real cluster on this machine; run by `make test-ray`."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest
import torch

from baselines.cli.main import main
from marft_agents.learning.rank_settings import RankSettings
from marft_agents.runs.ray_ranks import RankError, run_ranks
from tests.helpers.rank_runs import RUNS, die, differences, finish, finish_all, start
from tests.helpers.run_outcome import outcome

pytestmark = pytest.mark.ray
TWO = RankSettings(learners=2)


def test_two_ranks_learn_what_one_learns(connected, tmp_path):
    run_ranks(partial(finish_all, str(tmp_path)), TWO, tmp_path)
    for name in RUNS:
        alone = finish(start(name))
        weights, metrics = differences(alone, torch.load(tmp_path / f"{name}.pt", weights_only=True))
        print(f"{name}: weights {max(weights.values()):.1e}, metrics {metrics:.1e}")
        assert max(weights.values()) < 1e-6
        assert metrics < 1e-5
        if name == "kl-stop":
            assert alone[1][0]["buyer_0/kl_stopped"] == 1


def test_a_rank_that_dies_ends_all_of_them(connected, tmp_path, capsys):
    with pytest.raises(RankError, match=r"learner rank 1 died"):
        run_ranks(partial(die, str(tmp_path)), TWO, tmp_path)
    assert "rank 0 plays\n" in capsys.readouterr().out
    deadline = time.monotonic() + 60
    for file in tmp_path.glob("pid-*"):
        while Path("/proc", file.read_text()).exists():
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["pid-0", "pid-1"]  # nothing of Ray Train is left


TRAIN = ["train", "--env", "marft/math_duo-v0", "--data", "embedded:stories", "--model", "tiny"]
TRAIN += ["--groups", "2", "--group-size", "2", "--max-new-tokens", "4"]
TRAIN += ["--entropy-bonus", "0.1", "--policy-lr", "1e-3"]  # something is learned though nothing is solved


def test_a_run_goes_on_with_another_number_of_learners(connected, tmp_path):
    """One learner, then two that shard the base, with a rollout worker, then one again."""
    assert main([*TRAIN, "--updates", "3", "--out", str(tmp_path / "one")]) == 0
    changed = str(tmp_path / "changed")
    assert main([*TRAIN, "--updates", "1", "--out", changed]) == 0
    two = ["--ray", "local", "--learners", "2", "--shard-base"]
    assert main(["train", "--resume", changed, "--updates", "2", *two]) == 0
    one = ["--ray", "none", "--learners", "1", "--no-shard-base"]
    assert main(["train", "--resume", changed, "--updates", "3", *one]) == 0
    one, other = outcome(tmp_path / "one"), outcome(tmp_path / "changed")
    assert max(value for name, value in flat(one["adapters"]).items() if "lora_B" in name) > 1e-4
    assert flat(other["adapters"]) == pytest.approx(flat(one["adapters"]), abs=1e-6)
    assert flat(other["learner"]) == pytest.approx(flat(one["learner"]), abs=1e-6)
    assert other["episodes"].count("\n") == one["episodes"].count("\n")
    assert [line.keys() for line in other["metrics"]] == [line.keys() for line in one["metrics"]]


def flat(state, path=""):
    """Return all numbers of a nested state by path."""
    if isinstance(state, dict):
        items = state.items()
    elif isinstance(state, list):
        items = enumerate(state)
    else:
        return {path: state} if isinstance(state, float) else {}
    return {key: value for name, part in items for key, value in flat(part, f"{path}/{name}").items()}
