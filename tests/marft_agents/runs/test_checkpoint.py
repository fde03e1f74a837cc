"""Checkpoints: standard adapters, errors that name both sides, nothing half-written on a full disk."""

from __future__ import annotations

import copy
import json
import math
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.models.base_settings import LoraSettings
from marft_agents.models.random_models import LINEAR_LAYERS
from marft_agents.policies.adapter_files import folder_names
from marft_agents.policies.language_model import LanguageModelTeam, LocalAgent
from marft_agents.runs import checkpoint
from marft_agents.runs.checkpoint import CheckpointError
from tests.helpers.fakes import word_model, word_team
from tests.helpers.full_disk import largest_file
from tests.helpers.naive import adapters, moved, play

ROOT = Path(__file__).parents[3]
MARKET = ("buyer_0", "seller_0")


@cache
def trained():
    team = word_team(MARKET, stir=0.3)
    learner = Learner(team, LearnerSettings(policy_lr=1e-2))
    learner.update(play(team))
    return team, learner


def saved(folder, **knobs):
    """Save a team of its own after one update; return team, learner and the checkpoint."""
    team, learner = copy.deepcopy(trained())
    return team, learner, checkpoint.save(folder, team, learner, **knobs)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Checkpoint of one update, which no test changes."""
    return saved(tmp_path_factory.mktemp("written"))[2]


@pytest.fixture
def path(written, tmp_path):
    """Copy of that checkpoint, to be damaged."""
    return Path(shutil.copytree(written, tmp_path / "run" / written.name))


def fresh():
    team = word_team(MARKET)
    return team, Learner(team, LearnerSettings(policy_lr=1e-2))


def shaped(**lora):
    """Return the market's team with adapters of another shape."""
    base = AdaptedBase(word_model(), MARKET, LoraSettings(**({"targets": LINEAR_LAYERS} | lora)), seed=0)
    return LanguageModelTeam({agent: LocalAgent(base, agent) for agent in MARKET}, SamplingParams(max_new_tokens=2))


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")  # peft asks by the old name
def test_adapters_are_standard_peft(tmp_path):
    from peft import PeftModel

    team, _, path = saved(tmp_path)
    ids = torch.arange(12)[None]
    for agent in MARKET:
        base = team.local_agent(agent).base
        loaded = PeftModel.from_pretrained(word_model().model, path / agent).eval()
        with torch.no_grad(), base.active_adapter(agent):
            torch.testing.assert_close(base.peft(input_ids=ids).logits, loaded(input_ids=ids).logits)
        with torch.no_grad(), base.active_adapter(None):
            assert not torch.allclose(loaded(input_ids=ids).logits, base.peft(input_ids=ids).logits)


NASTY = [
    "agent.1",
    "keys",
    "a/b",
    "",
    "..",
    "/etc",
    "\x00\n\x1b[2J",
    "0",
    "1",
    "A",
    "a",
    "default",
    "state.json",
    "ä 🙂",
    "x" * 300,
]


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
def test_agents_may_be_called_anything(tmp_path):
    """Every adapter lies in a folder of its own that PEFT loads, and the checkpoint says which."""
    from peft import PeftModel

    team = word_team(NASTY, stir=0.3)
    learner = Learner(team, LearnerSettings(policy_lr=1e-2))
    path = checkpoint.save(tmp_path, team, learner)
    folders = json.loads((path / "state.json").read_text())["folders"]
    assert list(folders) == NASTY
    assert {p.name for p in path.iterdir()} == {*folders.values(), "state.json", "learner.pt"}
    assert (folders["keys"], folders["0"], folders["default"]) == ("keys", "0", "default")
    ids = torch.arange(12)[None]
    base = team.bases[0]
    for agent in NASTY:
        loaded = PeftModel.from_pretrained(word_model().model, path / folders[agent]).eval()
        with torch.no_grad(), base.active_adapter(agent):
            torch.testing.assert_close(base.peft(input_ids=ids).logits, loaded(input_ids=ids).logits)
    other = word_team(NASTY)
    checkpoint.load(path, other, Learner(other, LearnerSettings(policy_lr=1e-2)))
    assert moved(adapters(team), adapters(other)) == set()
    assert moved(adapters(team), adapters(word_team(NASTY))) == set(NASTY)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=120) | st.sampled_from(NASTY), unique=True, max_size=9))
def test_folder_names_are_safe_and_distinct_and_plain_ids_keep_theirs(agents):
    names = folder_names(agents)
    assert list(names) == agents
    assert len({name.lower() for name in names.values()}) == len(agents)
    assert all(re.fullmatch(r"[\w-]{1,120}", name, re.ASCII) for name in names.values())
    plain = [agent for agent in agents if re.fullmatch(r"[a-z0-9]+_[0-9]", agent, re.ASCII)]
    assert all(names[agent] == agent for agent in plain)


def edit(path, change):
    """Change the state of a checkpoint in place, and seal it again: `change` is given the dictionary."""
    state = checkpoint.read_state(path)
    change(state)
    checkpoint.write_state(path, state)


def test_a_checkpoint_without_folders_is_of_agents_with_plain_ids(tmp_path):
    team, _, path = saved(tmp_path)
    edit(path, lambda state: state.pop("folders"))  # as older versions wrote it
    other, _ = fresh()
    checkpoint.load_adapters(path, other)
    assert moved(adapters(team), adapters(other)) == set()


def test_a_checkpoint_is_the_same_in_every_process(tmp_path):
    """Targets come from a set: its order, which differs between processes, is not saved."""
    _, _, path = saved(tmp_path)
    targets = json.loads((path / "buyer_0" / "adapter_config.json").read_text())["target_modules"]
    assert targets == sorted(LINEAR_LAYERS)


SAVE = """
import sys
from pathlib import Path
from tests.marft_agents.runs.test_checkpoint import saved
saved(Path(sys.argv[1]))
"""


@pytest.mark.slow
def test_two_processes_write_the_same_bytes(tmp_path):
    written = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        environment = os.environ | {"PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"}
        subprocess.run([sys.executable, "-c", SAVE, str(folder)], check=True, env=environment, cwd=ROOT)
        written.append({p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()})
    assert len(written[0]) == 6
    assert written[0] == written[1]


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
    team, learner, _ = saved(tmp_path, keep=2, keep_every=3)
    for _ in range(6):
        learner.update([])
        checkpoint.save(tmp_path, team, learner, keep=2, keep_every=3)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"update-{n:05d}" for n in (3, 6, 7)]


def test_a_copy_of_a_checkpoint_beside_it_is_none_of_the_run(tmp_path):
    team, learner, path = saved(tmp_path)
    copy = shutil.copytree(path, tmp_path / f"{path.name}.bak")
    assert checkpoint.latest(tmp_path) == path
    learner.update([])
    newest = checkpoint.save(tmp_path, team, learner, keep=1)
    assert sorted(tmp_path.iterdir()) == [copy, newest]


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
        (lambda: word_team(MARKET[::-1]), "found agents buyer_0, seller_0, wanted seller_0, buyer_0"),
        (lambda: shaped(alpha=4), "'buyer_0'.*found .*'alpha': 16.*wanted .*'alpha': 4"),
        (lambda: shaped(targets=("q_proj",)), "found .*'targets': .*'v_proj'.*wanted .*'targets': .'q_proj'.}"),
    ],
)
@pytest.mark.parametrize(
    "load",
    [
        checkpoint.load_adapters,
        lambda path, team: checkpoint.load(path, team, Learner(team, LearnerSettings(policy_lr=1e-2))),
    ],
)
def test_a_checkpoint_of_another_team_names_both(written, team, message, load):
    other = team()
    before = adapters(other)
    with pytest.raises(CheckpointError, match=f"{written.name}.*{message}"):
        load(written, other)
    assert moved(before, adapters(other)) == set()


def test_a_frozen_agent_may_play_where_the_checkpoint_has_an_adapter_but_the_run_goes_on_as_it_was(tmp_path):
    team, _, path = saved(tmp_path)
    other = word_team({"buyer_0": "buyer_0", "seller_0": None})
    with pytest.raises(CheckpointError, match=f"{path.name}.*'seller_0'.*found .*wanted .*'adapter': None"):
        checkpoint.load(path, other, Learner(other, LearnerSettings(policy_lr=1e-2)))
    checkpoint.load_adapters(path, other)
    trained, loaded = adapters(team)["buyer_0"], adapters(other)["buyer_0"]
    assert all(torch.equal(trained[name], loaded[name]) for name in trained)


def test_other_settings_name_both(path):
    team = word_team(MARKET)
    learner = Learner(team, LearnerSettings(policy_lr=0.5, kl_stop=0.1))
    message = r"other settings: policy_lr: found 0\.01, wanted 0\.5; kl_stop: found None, wanted 0\.1; resume with"
    with pytest.raises(CheckpointError, match=message):
        checkpoint.load(path, team, learner)


# what the version of 20 November 2026 recorded of `LearnerSettings(policy_lr=1e-2)`
OLD_SETTINGS = (
    "LearnerSettings(level='action', normalisation='sum', baseline='critic', compare='draw', "
    "credit='chain', centring='batch', scaling='agent', averaging='decision', policy_lr=0.01, "
    "critic_lr=1e-05, lr_schedule='constant', adam_epsilon=1e-05, max_grad_norm=0.5, discount=0.99, "
    "trace_decay=0.95, value_trace_decay=None, length_adaptive=0.0, clip_low=0.2, clip_high=0.2, "
    "importance_cap=2.0, entropy_bonus=0.0, kl_weight=0.0, kl_estimator='k3', kl_place='loss', "
    "positive_nll=0.0, overlong_share=0.0, overlong_penalty=1.0, ppo_epochs=1, mini_batches=1, "
    "micro_batch=16, gradient_checkpointing=False, kl_stop=None, value_epochs=4, value_mini_batches=4, "
    "huber_delta=10.0, value_norm=False, value_warmup=0, agent_interval=0, agent_order='fixed', "
    "compounding='none', clip_start=1.0, dynamic_sampling=0, branches=0)"
)


def with_settings(path, change):
    """Change what a checkpoint says of its settings."""
    edit(path, lambda state: state.update(settings=change(state["settings"])))


def without(settings, *names):
    return {name: value for name, value in settings.items() if name not in names}


@pytest.mark.parametrize(
    "change",
    [
        lambda settings: OLD_SETTINGS,
        lambda settings: without(settings, "token_discount", "value_clip", "value_width"),
    ],
    ids=["text", "fewer settings"],
)
def test_a_checkpoint_of_a_version_that_knew_fewer_settings_resumes(tmp_path, change):
    team, learner, path = saved(tmp_path)
    with_settings(path, change)
    other, other_learner = fresh()
    assert checkpoint.load(path, other, other_learner) == 1
    trajectories = play(team)
    learner.update(trajectories)
    other_learner.update(trajectories)
    assert moved(adapters(team), adapters(other)) == set()
    third = word_team(MARKET)
    for knobs in ({"value_clip": 0.2}, {"clip_low": 0.1}):  # one that it did not know, one that it did
        with pytest.raises(CheckpointError, match=f"other settings: {next(iter(knobs))}: found .*, wanted "):
            checkpoint.load(path, third, Learner(third, LearnerSettings(policy_lr=1e-2, **knobs)))


def test_infinite_settings_of_the_old_form_are_read(path):
    with_settings(path, lambda settings: OLD_SETTINGS.replace("importance_cap=2.0", "importance_cap=inf"))
    team = word_team(MARKET)
    assert checkpoint.load(path, team, Learner(team, LearnerSettings(policy_lr=1e-2, importance_cap=math.inf))) == 1


def test_a_checkpoint_of_a_version_that_knew_more_settings_says_so(path):
    with_settings(path, lambda settings: {**settings, "momentum": 0.5})
    with pytest.raises(CheckpointError, match=r"does not know: momentum; resume with the version that wrote it"):
        checkpoint.load(path, *fresh())


@pytest.mark.parametrize(
    "record", ["LearnerSettings(", "7", "LearnerSettings(policy_lr=open('x'))", "LearnerSettings(level=x)", None, [1]]
)
def test_settings_that_are_no_settings_are_damage(path, record):
    with_settings(path, lambda settings: record)
    with pytest.raises(CheckpointError, match=r"state\.json is damaged: its settings are"):
        checkpoint.load(path, *fresh())


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
@pytest.mark.parametrize("hashed", [True, False])
def test_a_damaged_checkpoint_is_an_error_that_names_the_file(path, file, damage, hashed):
    if not hashed:  # as checkpoints were written before
        state = json.loads((path / "state.json").read_text())
        del state["sha256"]
        (path / "state.json").write_text(json.dumps(state))
    damage(path / file)
    with pytest.raises(CheckpointError, match=str(path / file)) as caught:
        checkpoint.load(path, *fresh())
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("key", "value"),
    [("updates", 7), ("notes", {"tool_surface": "0" * 64}), ("folders", {"buyer_0": "seller_0"}), ("sha256", {})],
)
def test_a_changed_state_is_found_and_an_older_one_has_no_hash(path, key, value):
    state = json.loads((path / "state.json").read_text())
    kept = {"state.json": state["sha256"]["state.json"]}
    changed = {**state, key: value | kept if key == "sha256" else value}
    (path / "state.json").write_text(json.dumps(changed))
    with pytest.raises(CheckpointError, match=r"state\.json is damaged, or was changed later: found sha256 "):
        checkpoint.load(path, *fresh())
    (path / "state.json").write_text(json.dumps(dict(reversed(state.items())), indent=4))  # the same content
    assert checkpoint.load(path, *fresh()) == 1
    del state["sha256"]  # as checkpoints were written before
    (path / "state.json").write_text(json.dumps(state))
    assert checkpoint.load(path, *fresh()) == 1


def test_where_files_have_hashes_each_one_that_is_loaded_has_one(tmp_path):
    for unhashed in ("learner.pt", "seller_0/adapter_model.safetensors"):
        _, _, path = saved(tmp_path / unhashed.partition(".")[0])
        edit(path, lambda state, name=unhashed: state["sha256"].pop(name))
        with pytest.raises(CheckpointError, match=f"{path / unhashed} has no sha256 in state.json, though other"):
            checkpoint.load(path, *fresh())


OUTSIDE = ["../outside", "../../outside", "a/../../outside", "/etc", "..", ".", "", "seller_0/", "a\\b", "a\0b"]


@pytest.mark.parametrize("hashed", [True, False])
@pytest.mark.parametrize("folder", OUTSIDE)
def test_an_adapter_lies_in_a_folder_of_the_checkpoint(tmp_path, path, folder, hashed):
    shutil.copytree(path / "seller_0", tmp_path / "run" / "outside")
    shutil.copytree(path / "seller_0", tmp_path / "outside")

    def point_outside(state):
        state["folders"]["seller_0"] = folder
        state["sha256"][f"{folder}/adapter_model.safetensors"] = state["sha256"]["seller_0/adapter_model.safetensors"]

    edit(path, point_outside)
    if not hashed:
        (path / "state.json").write_text(json.dumps(json.loads((path / "state.json").read_text()) | {"sha256": {}}))
    team, _ = fresh()
    before = adapters(team)
    with pytest.raises(CheckpointError, match=r"folders: 'seller_0': found .*, wanted the name of a folder in"):
        checkpoint.load_adapters(path, team)
    assert moved(before, adapters(team)) == set()


@pytest.mark.parametrize("hashed", [True, False])
def test_a_link_leads_to_no_other_place(tmp_path, path, hashed):
    if not hashed:
        (path / "state.json").write_text(json.dumps(json.loads((path / "state.json").read_text()) | {"sha256": {}}))
    (path / "seller_0").rename(tmp_path / "elsewhere")
    (path / "seller_0").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="'seller_0', which is a link: wanted a folder in"):
        checkpoint.load(path, *fresh())
    (path / "seller_0").unlink()
    (tmp_path / "elsewhere").rename(path / "seller_0")
    for name in ("seller_0/adapter_model.safetensors", "learner.pt"):  # the cache of the hub has such links
        (path / name).rename(tmp_path / "blob")
        (path / name).symlink_to(tmp_path / "blob")
        if hashed:
            assert checkpoint.load(path, *fresh()) == 1
        else:
            with pytest.raises(CheckpointError, match=f"{path / name} is a link to .*blob: wanted a file in"):
                checkpoint.load(path, *fresh())
        (path / name).unlink()
        (tmp_path / "blob").rename(path / name)


@pytest.mark.parametrize("file", ["learner.pt", "seller_0/adapter_model.safetensors"])
def test_one_flipped_bit_of_the_weights_is_found(path, file):
    content = bytearray((path / file).read_bytes())
    content[-100] ^= 1  # within a number: both formats would be read without an error
    (path / file).write_bytes(content)
    with pytest.raises(CheckpointError, match=f"{path / file} is damaged, or was changed later"):
        checkpoint.load(path, *fresh())


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


def test_state_is_plain_json(path):
    state = json.loads((path / "state.json").read_text())
    assert state["updates"] == 1
    assert list(state["team"]) == list(MARKET)
    assert np.isclose(state["team"]["buyer_0"]["rank"], 8)
