"""Checkpoints: standard adapters, errors that name both sides, nothing half-written on a full disk."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from fakes import word_model, word_team
from full_disk import largest_file
from naive import adapters, moved, play
from safetensors.torch import load_file, save_file

from marft_agents import checkpoint
from marft_agents.checkpoint import CheckpointError
from marft_agents.learner import Learner
from marft_agents.settings import LearnerSettings

MARKET = ("buyer_0", "seller_0")


def saved(folder, *, updates=1, **knobs):
    """Train a little and save; return team, learner and the checkpoint."""
    team = word_team(MARKET, stir=0.3)
    learner = Learner(team, LearnerSettings(policy_lr=1e-2))
    trajectories = play(team)
    for _ in range(updates):
        learner.update(trajectories)
        path = checkpoint.save(folder, team, learner, **knobs)
    return team, learner, path


def fresh():
    team = word_team(MARKET)
    return team, Learner(team, LearnerSettings(policy_lr=1e-2))


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")  # peft asks by the old name
def test_adapters_are_standard_peft(tmp_path):
    from peft import PeftModel

    team, _, path = saved(tmp_path)
    ids = torch.arange(12)[None]
    for agent in MARKET:
        base = team.seat(agent).base
        loaded = PeftModel.from_pretrained(word_model().model, path / agent).eval()
        with torch.no_grad(), base.wearing(agent):
            assert torch.equal(loaded(input_ids=ids).logits, base.peft(input_ids=ids).logits)
        with torch.no_grad(), base.wearing(None):
            assert not torch.allclose(loaded(input_ids=ids).logits, base.peft(input_ids=ids).logits)


def test_a_checkpoint_restores_every_tensor_and_stays_trainable(tmp_path):
    team, learner, path = saved(tmp_path)
    other, other_learner = fresh()
    assert checkpoint.load(path, other, other_learner) == 1
    assert moved(adapters(team), adapters(other)) == set()
    for mine, theirs in zip(learner.critic.heads, other_learner.critic.heads, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(mine.parameters(), theirs.parameters(), strict=True))
    trajectories = play(team)
    learner.update(trajectories)
    other_learner.update(trajectories)
    assert moved(adapters(team), adapters(other)) == set()
    assert moved(adapters(fresh()[0]), adapters(other)) == set(MARKET)


def test_only_adapters_can_be_loaded(tmp_path):
    team, _, _ = saved(tmp_path / "checkpoints")
    other, _ = fresh()
    checkpoint.load_adapters(tmp_path, other)  # a run folder is accepted too
    assert moved(adapters(team), adapters(other)) == set()


def test_old_checkpoints_are_dropped(tmp_path):
    saved(tmp_path, updates=7, keep=2, keep_every=3)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"update-{n:05d}" for n in (3, 6, 7)]


def test_a_repeated_update_replaces_its_checkpoint(tmp_path):
    team, learner, path = saved(tmp_path)
    (path / "old").touch()
    (tmp_path / ".part-killed").mkdir()
    assert checkpoint.save(tmp_path, team, learner) == path
    assert not (path / "old").exists()
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("team", "message"),
    [
        (lambda: word_team(["buyer_0", "grocer_0"]), "found agents buyer_0, seller_0, wanted buyer_0, grocer_0"),
        (lambda: word_team(["buyer_0"]), "found agents buyer_0, seller_0, wanted buyer_0"),
        (lambda: word_team(dict.fromkeys(MARKET, "shared")), "'buyer_0'.*found .*'buyer_0'.*wanted .*'shared'"),
        (lambda: word_team(MARKET, rank=4), "found .*'rank': 8.*wanted .*'rank': 4"),
        (lambda: word_team(MARKET, model_seed=1), "found .*'words-0'.*wanted .*'words-1'"),
    ],
)
def test_a_checkpoint_of_another_team_names_both(tmp_path, team, message):
    _, _, path = saved(tmp_path)
    other = team()
    before = adapters(other)
    with pytest.raises(CheckpointError, match=f"{path.name}.*{message}"):
        checkpoint.load_adapters(path, other)
    assert moved(before, adapters(other)) == set()


def test_other_settings_name_both(tmp_path):
    _, _, path = saved(tmp_path)
    team = word_team(MARKET)
    with pytest.raises(CheckpointError, match=r"(?s)found .*policy_lr=0\.01.*wanted .*policy_lr=0\.5"):
        checkpoint.load(path, team, Learner(team, LearnerSettings(policy_lr=0.5)))


def test_no_checkpoint_says_what_is_wanted(tmp_path):
    with pytest.raises(CheckpointError, match=r"no complete checkpoint in .*state\.json"):
        checkpoint.resolve(tmp_path)
    (tmp_path / "update-00001").mkdir()  # without a state file it is not complete
    with pytest.raises(CheckpointError, match="no complete checkpoint"):
        checkpoint.resolve(tmp_path)


def _cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _drop_tensor(path):
    tensors = load_file(path)
    del tensors[sorted(tensors)[0]]
    save_file(tensors, path)


def _reshape_tensor(path):
    tensors = load_file(path)
    name = sorted(tensors)[0]
    tensors[name] = torch.zeros(3, 3)
    save_file(tensors, path)


def _add_tensor(path):
    save_file(load_file(path) | {"base_model.model.nowhere.lora_A.weight": torch.zeros(2)}, path)


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("state.json", _cut),
        ("state.json", lambda path: path.write_text("{}")),
        ("state.json", lambda path: path.write_text("[1]")),
        ("learner.pt", _cut),
        ("learner.pt", lambda path: path.unlink()),
        ("learner.pt", lambda path: torch.save({"updates": 1}, path)),
        ("seller_0/adapter_model.safetensors", _cut),
        ("seller_0/adapter_model.safetensors", _drop_tensor),
        ("seller_0/adapter_model.safetensors", _reshape_tensor),
        ("seller_0/adapter_model.safetensors", _add_tensor),
        ("seller_0", shutil.rmtree),
    ],
)
def test_a_damaged_checkpoint_is_an_error_that_names_the_file(tmp_path, file, damage):
    _, _, path = saved(tmp_path)
    damage(path / file)
    with pytest.raises(CheckpointError, match=str(path / file)) as caught:
        checkpoint.load(path, *fresh())
    assert len(str(caught.value)) < 600


# ------------------------------------------------------------------ a full disk


@pytest.mark.parametrize("size", [0, 10_000, 50_000])  # the card, the adapter, the learner is refused
def test_a_full_disk_leaves_nothing_half_written(tmp_path, size):
    team, learner, path = saved(tmp_path)
    assert path.joinpath("learner.pt").stat().st_size > 50_000  # the largest file is refused at every size
    contents = {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}
    learner.update(play(team))
    with largest_file(size), pytest.raises(CheckpointError) as caught:
        checkpoint.save(tmp_path, team, learner)
    assert "update-00002 could not be written" in str(caught.value)
    assert "File too large" in str(caught.value)
    assert f"the newest complete checkpoint is {path}" in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert {p: p.read_bytes() for p in path.rglob("*") if p.is_file()} == contents
    assert checkpoint.save(tmp_path, team, learner).name == "update-00002"  # with space again it goes on


def test_state_is_plain_json(tmp_path):
    _, _, path = saved(tmp_path)
    state = json.loads((path / "state.json").read_text())
    assert state["updates"] == 1
    assert list(state["team"]) == list(MARKET)
    assert np.isclose(state["team"]["buyer_0"]["rank"], 8)
