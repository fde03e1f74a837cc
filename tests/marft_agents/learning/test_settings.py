"""Settings of the learner: what algorithms fix, and where a setting without effect is refused."""

from __future__ import annotations

import dataclasses

import pytest

from marft_agents.learning.algorithms import ALGORITHMS, CRITIC_KNOBS, Algorithm
from marft_agents.learning.settings import LearnerSettings
from marft_agents.setting_fields import SettingsError


def test_an_algorithm_whose_settings_contradict_each_other_cannot_be_written():
    with pytest.raises(SettingsError, match="branches = 4 are alternatives of one turn"):
        Algorithm("x", "y", {"baseline": "group", "branches": 4})
    with pytest.raises(TypeError, match="baselin"):
        Algorithm("x", "y", {"baselin": "group"})


def test_what_algorithms_fix():
    whole, draws = {"level": "action", "averaging": "decision"}, {"compare": "draw", "branches": 0}
    group = draws | {"baseline": "group", "scaling": "group", "centring": "none"}
    turns = {"level": "token", "compare": "turn", "centring": "none"}
    joint = {"baseline": "critic", "credit": "round"}
    wanted = {
        "marft-a": whole | {"baseline": "critic", "credit": "chain"},
        "marft-t": {"level": "token", "baseline": "critic", "credit": "chain"},
        "vapo": {"level": "token", "averaging": "decision", "baseline": "critic", "credit": "chain"},
        "grpo": group | {"level": "token", "averaging": "sequence"},
        "dr-grpo": group | {"level": "token", "averaging": "constant", "scaling": "none"},
        "dapo": group | {"level": "token", "averaging": "decision"},
        "gspo": group | whole | {"normalisation": "token"},
        "rloo": group | whole | {"baseline": "leave_one_out", "scaling": "none", "normalisation": "sum"},
        "reinforce++": draws
        | {"level": "token", "averaging": "decision", "baseline": "none", "centring": "batch", "scaling": "agent"},
        "at-grpo": turns | {"baseline": "group", "scaling": "group", "averaging": "sequence"},
        "c3": turns | {"baseline": "leave_one_out", "scaling": "none", "averaging": "decision"},
        "mappo": joint,
        "ippo": joint | {"credit": "own"},
        "happo": joint | {"compounding": "happo", "agent_interval": 0},
        "a2po": joint | {"compounding": "a2po", "agent_interval": 0},
    }
    wanted |= {"ppo-a": wanted["marft-a"], "ppo-t": wanted["marft-t"]}
    assert {name: dict(chosen.fixes) for name, chosen in ALGORITHMS.items()} == wanted


def test_settings_of_the_critic_and_between_tokens():
    assert {"critic_lr", "credit", "value_warmup", "length_adaptive", "trace_decay", "token_discount"} < CRITIC_KNOBS
    assert not CRITIC_KNOBS & {"baseline", "discount", "level", "scaling", "compare", "branches", "averaging"}


CONDITIONS = {
    "normalisation": {"draws", "turns", "plain", "one at a time"},
    "averaging": {"tokens", "tokens of rounds"},
    "credit": {"tokens", "tokens of rounds", "one at a time"},
    "value_warmup": {"tokens", "tokens of rounds", "one at a time"},
    "value_trace_decay": {"tokens", "tokens of rounds", "one at a time"},
    "value_norm": {"tokens", "tokens of rounds", "one at a time"},
    "value_clip": {"tokens", "tokens of rounds", "one at a time"},
    "chain_links": {"tokens", "one at a time"},
    "compare": {"draws", "turns"},
    "branches": {"turns"},
    "length_adaptive": {"tokens"},
    "token_discount": {"tokens"},
    "token_trace_decay": {"tokens"},
    "compounding": {"tokens", "tokens of rounds", "draws", "turns", "plain"},
    "clip_start": {"tokens", "tokens of rounds", "draws", "turns", "plain"},
}
OTHER = {
    "normalisation": "word",
    "averaging": "sequence",
    "credit": "own",
    "chain_links": "reads",
    "value_warmup": 1,
    "value_trace_decay": 0.5,
    "value_norm": True,
    "value_clip": 0.2,
    "compare": "turn",
    "branches": 2,
    "length_adaptive": 0.1,
    "token_discount": 0.9,
    "token_trace_decay": 0.9,
    "compounding": "happo",
    "clip_start": 0.5,
}
SELECTIONS = {
    "tokens": {"level": "token"},
    "tokens of rounds": {"level": "token", "credit": "round"},
    "draws": {"baseline": "group"},
    "turns": {"baseline": "group", "compare": "turn"},
    "plain": {"baseline": "none"},
    "one at a time": {"agent_interval": 1},
}


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("name", CONDITIONS)
def test_a_setting_without_effect_is_refused_and_any_other_taken(name, selection):
    chosen = SELECTIONS[selection]
    if name in chosen:
        return
    given = chosen | {name: OTHER[name]}
    if selection in CONDITIONS[name]:
        assert getattr(LearnerSettings(**given), name) == OTHER[name]
    else:
        with pytest.raises(SettingsError, match=name):
            LearnerSettings(**given)


def test_every_setting_with_a_reason_is_tried():
    assert {field.name for field in dataclasses.fields(LearnerSettings) if "reason" in field.metadata} == {*CONDITIONS}


def test_there_is_one_lambda_between_tokens():
    with pytest.raises(SettingsError, match="are both the lambda between tokens"):
        LearnerSettings(level="token", length_adaptive=0.1, token_trace_decay=0.9)
