"""Sizes of the engine follow from total memory, and what cannot be is refused before a model loads."""

import dataclasses
from types import SimpleNamespace

import pytest
import torch
from transformers import Gemma4TextConfig, LlamaConfig

from marft_agents.generation import engine_settings, step_engine
from marft_agents.generation.engine_settings import GIB, EngineSettings, bytes_of_token
from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.base_settings import LoraSettings
from marft_agents.models.pretrained import load_config
from marft_agents.policies.team_building import build_team, engine_for
from marft_agents.setting_fields import SettingsError

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
QWEN = LlamaConfig(hidden_size=896, num_attention_heads=14, num_key_value_heads=2, num_hidden_layers=24)
BASES = [(QWEN, torch.bfloat16)]


@pytest.fixture(autouse=True)
def total(monkeypatch):
    sizes = {"cpu": 16 * GIB, "cuda": 80 * GIB}
    monkeypatch.setattr(engine_settings, "total_memory", lambda device: sizes[device.type])
    return sizes


def test_bytes_of_a_token_are_those_of_its_keys_and_values():
    assert bytes_of_token(QWEN, torch.bfloat16) == 24 * 2 * 2 * 64 * 2
    assert bytes_of_token(load_config("tiny"), torch.float32) == 2 * 2 * 2 * 8 * 4
    mixed = Gemma4TextConfig(num_hidden_layers=6)  # every sixth layer has heads of 512 numbers, the others of 256
    assert bytes_of_token(mixed, torch.float32) == 2 * 4 * (5 * 256 + 512) * 4


def test_sizes_are_chosen_once_from_total_memory(total):
    found = EngineSettings().resolved(CUDA, BASES, 2048)
    rows = 256 * (2048 + step_engine.BLOCK) * bytes_of_token(*BASES[0])
    assert (found.max_batch, found.kv_cache_gib) == (256, round(rows / 0.75 / GIB, 3))
    assert abs(found.rows_bytes + found.prompts_bytes - found.kv_cache_gib * GIB) < 2
    assert found.rows_bytes / found.prompts_bytes == pytest.approx(3)
    total["cuda"] = 24 * GIB
    assert EngineSettings().resolved(CUDA, BASES, 2048).kv_cache_gib == 6  # not all rows at their longest
    assert found.resolved(CUDA, BASES, 4096) == found  # a run that is resumed on another machine
    assert EngineSettings(max_batch=3).resolved(CPU, BASES, 64) == EngineSettings("auto", 3, 1.0)


@pytest.mark.parametrize(
    ("settings", "device", "reason"),
    [
        (EngineSettings("graph"), CPU, "engine = 'graph' captures CUDA graphs, found device cpu: use auto or eager"),
        (EngineSettings(kv_cache_gib=90.0), CUDA, r"kv_cache_gib = 90: cuda:0 has 80.0 GiB in all, wanted less"),
        (EngineSettings(kv_cache_gib=0.01), CUDA, "three quarters of it hold no row of 2048 tokens.*context_window"),
    ],
)
def test_what_cannot_be_is_refused(settings, device, reason):
    with pytest.raises(SettingsError, match=reason):
        settings.resolved(device, BASES, 2048)


def test_a_team_refuses_before_its_model_loads():
    with pytest.raises(SettingsError, match="engine = 'fast', wanted auto or eager or graph"):
        EngineSettings("fast")
    with pytest.raises(SettingsError, match="found device cpu"):
        build_team(
            ["a_0"],
            {"*": "tiny"},
            lora=LoraSettings(),
            sampling=SamplingParams(),
            device=CPU,
            engine=EngineSettings(engine="graph"),
        )


def test_a_team_has_the_sizes_and_keeps_them():
    sampling = SamplingParams(max_new_tokens=4)
    sized = engine_for(["a_0"], {"*": "tiny"}, sampling, CPU)
    assert sized.max_batch == 128
    team = build_team(["a_0"], {"*": "tiny"}, lora=LoraSettings(), sampling=sampling, device=CPU)
    assert team.engine == sized
    for other in (team, team.under(dataclasses.replace(sampling, temperature=0)), team.renamed({"b_0": "a_0"})):
        assert (other.engine, other.max_batch) == (sized, 128)


def test_total_memory_of_a_gpu_is_the_share_of_this_process(monkeypatch):
    monkeypatch.undo()  # of what replaces it in the tests above
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=80 * GIB))
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda device: 0.25)
    assert engine_settings.total_memory(CUDA) == 20 * GIB
