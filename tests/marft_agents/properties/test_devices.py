"""Agents of one team on several devices; `cpu` and `cpu:0` stand for two of them."""

import warnings

import numpy as np
import pytest
import torch

from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.models import pretrained
from marft_agents.models.base_settings import LoraSettings
from marft_agents.models.pretrained import dtype_on, load
from marft_agents.policies import team_building
from marft_agents.policies.adapter_files import pack_adapters, unpack_adapters
from marft_agents.policies.team_building import build_team
from marft_agents.rollouts.rollout import collect, training_episodes
from marft_agents.setting_fields import SettingsError
from tests.helpers.fakes import Market

AGENTS = ["buyer_0", "seller_0"]
ONE, OTHER = torch.device("cpu"), torch.device("cpu", 0)


def team(device, **options):
    sampling = SamplingParams(max_new_tokens=3)
    return build_team(AGENTS, {"*": "tiny-words"}, lora=LoraSettings(), sampling=sampling, device=device, **options)


def test_agents_of_one_model_share_it_on_a_device_and_have_a_copy_on_each_other():
    together, apart = team(ONE), team({"buyer_0": ONE, "seller_0": OTHER})
    assert len(together.bases) == 1
    assert len(apart.bases) == 2
    assert apart.local_agent("buyer_0").base is not apart.local_agent("seller_0").base
    assert len(team({"*": ONE, "seller_0": ONE}).bases) == 1


def test_each_copy_is_loaded_onto_its_device(monkeypatch):
    places = []
    monkeypatch.setattr(team_building, "load", lambda name, device, dtype: places.append(device) or load(name))
    team({"*": ONE, "seller_0": OTHER})
    assert places == [ONE, OTHER]


def test_the_dtype_of_frozen_weights_is_that_of_the_device_unless_it_is_given():
    assert dtype_on(torch.device("cuda")) == torch.bfloat16
    assert team(ONE).bases[0].dtype == dtype_on(ONE, "float32") == torch.float32
    half = team(ONE, dtype="bfloat16").bases[0]
    assert half.dtype == torch.bfloat16
    assert {tensor.dtype for tensor in half.parameters(AGENTS[0]).values()} == {torch.float32}
    with pytest.raises(SettingsError, match="dtype = 'float16', wanted one of auto, float32, bfloat16"):
        team(ONE, dtype="float16")


def test_agents_share_an_adapter_or_do_not():
    with pytest.raises(SettingsError, match="sharing = 'Shared', wanted separate or shared"):
        team(ONE, sharing="Shared")


def test_bfloat16_on_a_processor_that_emulates_it_is_warned_of(monkeypatch):
    monkeypatch.setattr(pretrained, "multiplies_bfloat16", lambda: False)
    with pytest.warns(UserWarning, match="no bfloat16 products: they are emulated"):
        dtype_on(torch.device("cpu"), "bfloat16")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dtype_on(torch.device("cpu"), "float32")
        dtype_on(torch.device("cuda"), "bfloat16")
        monkeypatch.setattr(pretrained, "multiplies_bfloat16", lambda: True)
        dtype_on(torch.device("cpu"), "bfloat16")


@pytest.mark.parametrize("credit", ["chain", "own"])
def test_a_team_on_two_devices_plays_the_same_and_learns(credit):
    together, apart = team(ONE), team({"buyer_0": ONE, "seller_0": OTHER})
    unpack_adapters(apart, pack_adapters(together))
    played = [
        collect(lambda: Market(cut=True), one, training_episodes(0, 0, 4, 2), seed=0, num_envs=8)
        for one in (together, apart)
    ]
    for ours, theirs in zip(*played, strict=True):
        for a, b in zip(ours.turns, theirs.turns, strict=True):
            np.testing.assert_array_equal(a.action.token_ids, b.action.token_ids)
            np.testing.assert_allclose(a.action.logprobs, b.action.logprobs, atol=1e-5)
    before = pack_adapters(apart)
    learner = Learner(apart, LearnerSettings(policy_lr=1e-2, credit=credit), seed=0)
    learner.update(played[1])
    after = pack_adapters(apart)
    assert len(learner.critic.heads) == 2
    assert all(before[agent] != after[agent] for agent in AGENTS)


@pytest.mark.parametrize(
    ("device", "options", "message"),
    [
        ({"byer_0": ONE}, {}, "device: found byer_0, wanted agents that play a local model: buyer_0, seller_0"),
        ({"buyer_0": ONE, "seller_0": OTHER}, {"sharing": "shared"}, "share one adapter, wanted one for all"),
    ],
)
def test_devices_that_cannot_be_are_refused(device, options, message):
    with pytest.raises(SettingsError, match=message):
        team(device, **options)
