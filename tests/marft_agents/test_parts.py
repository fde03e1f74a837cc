"""Typed parts of algorithms: what they fix, which settings select them, and what an unselected part refuses."""

from __future__ import annotations

import dataclasses
import typing

import pytest

from marft_agents.learning import parts
from marft_agents.learning.algorithms import ALGORITHMS, CRITIC_KNOBS, TOKEN_KNOBS, Defaults, learner_settings
from marft_agents.learning.settings import DEFAULTS, LearnerSettings
from marft_agents.setting_fields import SettingsError

KINDS = parts.Part.__subclasses__()


def test_every_field_of_a_part_is_a_setting_of_the_same_type_or_a_narrower_one():
    hints = typing.get_type_hints(LearnerSettings)
    for kind in KINDS:
        for name, hint in typing.get_type_hints(kind).items():
            if name == "selects":
                continue
            choices = typing.get_args(hints[name])
            found = [arg for arg in typing.get_args(hint) if arg is not type(None)] or [hint]
            if typing.get_origin(hints[name]) is typing.Literal:
                values = [value for arg in found for value in (typing.get_args(arg) or (arg,))]
                assert set(values) <= set(choices), (kind, name)
            else:
                assert set(found) <= {hints[name], *choices}, (kind, name)
        assert set(kind.selects) <= set(DEFAULTS)


def test_defaults_of_algorithms_are_settings():
    hints = typing.get_type_hints(LearnerSettings)
    for name, hint in typing.get_type_hints(Defaults).items():
        assert hint == hints[name] or hint in typing.get_args(hints[name]), name


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithms_settings_select_its_own_parts(name):
    chosen = ALGORITHMS[name]
    found = learner_settings(name).parts
    for part in (chosen.decision, chosen.credit, chosen.schedule, chosen.kl):
        if part is not None:
            [own] = [other for other in found if type(other) is type(part)]
            fixed = {k: v for k, v in vars(part).items() if v is not None}
            assert {k: v for k, v in vars(own).items() if k in fixed} == fixed
    assert isinstance(chosen.credit, parts.Critic) == chosen.critic


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
    assert {"token_discount", "token_trace_decay"} == TOKEN_KNOBS < CRITIC_KNOBS
    assert {"critic_lr", "credit", "value_warmup", "length_adaptive", "trace_decay"} < CRITIC_KNOBS
    assert not CRITIC_KNOBS & {"baseline", "discount", "level", "scaling"}


@pytest.mark.parametrize(
    ("knobs", "kinds"),
    [
        ({}, ["WholeActions", "Critic", "KlInLoss", "AllAgents"]),
        ({"level": "token"}, ["Tokens", "Critic", "TokenTraces", "KlInLoss", "AllAgents"]),
        ({"level": "token", "credit": "round"}, ["Tokens", "Critic", "KlInLoss", "AllAgents"]),
        (
            {"level": "token", "length_adaptive": 0.1},
            ["Tokens", "Critic", "LengthAdaptiveTraces", "KlInLoss", "AllAgents"],
        ),
        ({"baseline": "none", "agent_interval": 2}, ["WholeActions", "PlainReturns", "KlInLoss", "OneAgentAtATime"]),
        ({"baseline": "group"}, ["WholeActions", "PromptGroups", "KlInLoss", "AllAgents"]),
        ({"baseline": "leave_one_out", "compare": "turn"}, ["WholeActions", "TurnGroups", "KlInLoss", "AllAgents"]),
        ({"kl_place": "reward", "kl_weight": 0.1}, ["WholeActions", "Critic", "KlInReward", "AllAgents"]),
    ],
)
def test_settings_select_parts_that_hold_them(knobs, kinds):
    settings = LearnerSettings(**knobs)
    assert [type(part).__name__ for part in settings.parts] == kinds
    for part in settings.parts:
        assert vars(part) == {field.name: getattr(settings, field.name) for field in dataclasses.fields(part)}


OTHER = {
    "normalisation": "word",
    "averaging": "sequence",
    "credit": "own",
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
@pytest.mark.parametrize("name", parts.REASONS)
def test_a_setting_is_refused_where_its_part_is_not_selected_and_taken_where_it_is(name, selection):
    chosen = SELECTIONS[selection]
    if name in chosen:
        return
    values = DEFAULTS | chosen | {name: OTHER[name]}
    if name in parts.names_of(*parts.kinds_of(values)) and not any(
        kind.selects.get(name, OTHER[name]) != OTHER[name] for kind in parts.kinds_of(values)
    ):
        assert getattr(LearnerSettings(**(chosen | {name: OTHER[name]})), name) == OTHER[name]
    else:
        with pytest.raises(SettingsError, match=name):
            LearnerSettings(**(chosen | {name: OTHER[name]}))
