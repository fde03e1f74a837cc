"""Bases sharded over two ranks of a real process group: the same updates as with whole bases, in half the memory."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from marft_agents.learning.divergence_error import DivergenceError
from marft_agents.learning.rank_settings import RankSettings
from marft_agents.learning.sharding import check_fsdp
from marft_agents.runs import checkpoint
from marft_agents.setting_fields import SettingsError
from tests.helpers.rank_runs import differences, numbers, start
from tests.marft_agents.learning import sharded_runs

long = pytest.mark.long


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Comparison of all runs, on rank 0."""
    meeting = f"file://{tmp_path_factory.mktemp('ranks') / 'meeting'}"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    other = subprocess.Popen([sys.executable, sharded_runs.__file__, meeting], env=environment)
    try:
        yield sharded_runs.compare(meeting, 0)
        assert other.wait(60) == 0
    finally:
        other.kill()
        other.wait()


@long
@pytest.mark.parametrize("name", sharded_runs.SAME)
def test_sharded_bases_change_no_update(found, name):
    (whole, _), (sharded, _) = found[name, False], found[name, True]
    weights, metrics = differences(whole, sharded)
    print(f"{name}: weights {max(weights.values()):.1e}, metrics {metrics:.1e}")
    assert max(weights.values()) < 1e-6
    assert metrics < 1e-5


@long
def test_a_rank_without_actions_takes_part_in_every_pass(found):
    """With ratios, reference log-probs and a critic: else the other rank would wait for its shards forever."""
    (whole, empty), (sharded, padded) = found["uneven", False], found["uneven", True]
    assert max(differences(whole, sharded)[0].values()) < 1e-6
    assert empty == []
    assert {None, "seller_0"} <= set(padded)  # on rank 0; None: values and reference


@long
def test_activations_are_recomputed_with_sharded_bases(found):
    assert found["recomputed", True][0][1][0]["buyer_0/grad_norm"] > 0


@long
def test_a_divergence_on_one_rank_holds_up_no_other(found):
    error, spoiled, metrics = found["diverged", True]
    assert isinstance(error, DivergenceError)
    assert [rows is spoiled for rows in error.rows.actions] == [True]
    assert metrics["buyer_0/grad_norm"] > 0  # of the update after it


def local_bytes(base):
    """Return the bytes of the frozen weights that this rank holds between passes."""
    frozen = [p for name, p in base.peft.named_parameters() if "lora_" not in name]
    return sum(4 * (p.to_local() if hasattr(p, "to_local") else p).numel() for p in frozen)


@long
def test_each_rank_holds_half_of_the_layers(found):
    whole, sharded = (found["marft-a", sharded][1].team.bases[0] for sharded in (False, True))
    layers = sum(p.numel() * 4 for name, p in whole.trunk.layers.named_parameters() if "lora_" not in name)
    assert local_bytes(whole) - local_bytes(sharded) == layers / 2
    assert layers > local_bytes(whole) / 2  # even of `tiny`


@long
def test_checkpoints_do_not_depend_on_sharding(found, tmp_path):
    saved = {}
    for sharded in (False, True):
        learner = found["marft-t", sharded][1]
        checkpoint.save(tmp_path / str(sharded) / "checkpoints", learner.team, learner, keep=1)
        files = sorted((tmp_path / str(sharded)).rglob("*.*"))
        saved[sharded] = [str(file.relative_to(tmp_path / str(sharded))) for file in files]
        resumed = start("marft-t")  # one learner, which holds all
        assert checkpoint.load(tmp_path / str(sharded), resumed.team, resumed) == 3
        assert all(torch.equal(value, numbers(learner)[part]) for part, value in numbers(resumed).items())
    assert saved[False] == saved[True]
    learner = found["marft-t", True][1]
    checkpoint.load(tmp_path / "False", learner.team, learner)
    assert all(torch.equal(value, numbers(learner)[part]) for part, value in numbers(resumed).items())


def test_one_learner_has_nobody_to_share_a_base_with():
    with pytest.raises(SettingsError, match=r"found 1: give --learners 2 or more, or --no-shard-base"):
        RankSettings(shard_base=True)


def test_an_older_torch_is_refused(monkeypatch):
    check_fsdp()
    monkeypatch.setattr("torch.distributed.fsdp.fully_shard", lambda module, *, mesh: None)
    with pytest.raises(SettingsError, match=r"shard_base needs torch 2\.7 or newer, found 2"):
        check_fsdp()
