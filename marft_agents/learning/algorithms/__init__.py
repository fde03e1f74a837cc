"""Registry of algorithms, and the settings that each one gives a learner.

There is one learner. An algorithm is a definition in the file of its family: settings that it fixes, and defaults. New
behaviour is a pure function in `advantages` or `objectives` and a knob in `settings`. Equations: docs/algorithms.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from marft_agents.learning.algorithms.definition import Algorithm
from marft_agents.learning.algorithms.group import AT_GRPO, C3, DAPO, DR_GRPO, GRPO, GSPO, REINFORCE_PLUS_PLUS, RLOO
from marft_agents.learning.algorithms.marft import MARFT_A, MARFT_T
from marft_agents.learning.algorithms.multi_agent_ppo import A2PO, HAPPO, IPPO, MAPPO
from marft_agents.learning.algorithms.ppo import PPO_A, PPO_T, VAPO
from marft_agents.learning.settings import CRITIC_KNOBS, DEFAULTS, LearnerSettings, without_effect
from marft_agents.setting_fields import SettingsError

__all__ = [
    "ALGORITHMS",
    "CRITIC_KNOBS",
    "Algorithm",
    "algorithm",
    "learner_settings",
    "settings_for",
]

ALGORITHMS = {
    "marft-a": MARFT_A,
    "marft-t": MARFT_T,
    "ppo-a": PPO_A,
    "ppo-t": PPO_T,
    "grpo": GRPO,
    "dr-grpo": DR_GRPO,
    "dapo": DAPO,
    "vapo": VAPO,
    "gspo": GSPO,
    "rloo": RLOO,
    "reinforce++": REINFORCE_PLUS_PLUS,
    "at-grpo": AT_GRPO,
    "c3": C3,
    "mappo": MAPPO,
    "ippo": IPPO,
    "happo": HAPPO,
    "a2po": A2PO,
}


def algorithm(name: str) -> Algorithm:
    """Return an algorithm by name.

    Raises:
        SettingsError: No algorithm has that name; the message lists all names.
    """
    if name not in ALGORITHMS:
        raise SettingsError(f"unknown algorithm {name!r}; there are {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name]


def learner_settings(name: str, preset: Mapping[str, Any] | None = None, /, **given: Any) -> LearnerSettings:
    """Return the settings of an algorithm; the only place that decides which source of a setting takes precedence.

    From first to last: settings that define the algorithm, the user's, the algorithm's defaults, a preset, the defaults
    of `LearnerSettings`.

    Args:
        name: Name of the algorithm.
        preset: Values that replace the defaults of `LearnerSettings`; those without effect here are ignored.
        **given: Settings given by the user.

    Raises:
        SettingsError: The name is unknown, or a given setting contradicts the algorithm or has no effect on it.

    Examples:
        >>> learner_settings("gspo", policy_lr=1e-4).normalisation
        'token'
    """
    chosen = algorithm(name)
    for knob, value in given.items():
        if knob in CRITIC_KNOBS and not chosen.critic:
            raise SettingsError(f"{knob} = {value!r} means nothing to {name}, which trains no critic: leave it out")
    _refuse_contradictions(name, chosen, given)
    said = {**chosen.defaults, **given, **chosen.fixes}
    # A preset is for many algorithms: what it says of a critic is left out where these settings train none.
    unused = CRITIC_KNOBS & without_effect({**DEFAULTS, **(preset or {}), **said})
    values = {}
    for knob, value in (preset or {}).items():
        if knob in DEFAULTS and knob not in unused:
            values[knob] = value
    return LearnerSettings(**{**values, **said})


def _refuse_contradictions(name: str, chosen: Algorithm, given: Mapping[str, Any]) -> None:
    for knob, wanted in chosen.fixes.items():
        if knob in given and given[knob] != wanted:
            raise SettingsError(f"{knob} = {given[knob]!r} contradicts {name}, which is defined by {wanted!r}")


def settings_for(
    name: str,
    settings: LearnerSettings,
    num_agents: int,
    *,
    group_size: int | None = None,
    updates: int | None = None,
    shared: bool = False,
) -> LearnerSettings:
    """Apply the settings that an algorithm fixes, and check that it can run with this team and schedule.

    Args:
        name: Name of the algorithm.
        settings: User's settings; a fixed one left at its default is set, any other value is refused.
        num_agents: Number of agents in the team, >= 1.
        group_size: Episodes per prompt group, >= 1; None: not known yet.
        updates: Number of updates of the run; None: not known yet.
        shared: True if all agents train one shared adapter.

    Raises:
        SettingsError: The combination cannot run; the message gives the reason.
    """
    chosen = algorithm(name)
    # Nothing tells whether a value was given: one that differs from its default must have been.
    changed = {knob: value for knob, value in vars(settings).items() if value != DEFAULTS[knob]}
    _refuse_contradictions(name, chosen, changed)
    missing = {knob: value for knob, value in chosen.fixes.items() if getattr(settings, knob) != value}
    fixed = dataclasses.replace(settings, **missing) if missing else settings
    if chosen.single_agent and num_agents != 1:
        multi = name.replace("ppo", "marft")
        raise SettingsError(f"{name} trains one agent, the team has {num_agents}: use {multi} or a solo environment")
    if fixed.branches < chosen.min_branches:
        raise SettingsError(
            f"{name} compares alternatives of a turn: wanted branches >= {chosen.min_branches}, found {fixed.branches}"
        )
    if group_size == 1 and fixed.compares_draws:
        alone = chosen.critic or fixed.baseline == "none"
        by, otherwise = ("centring = 'group'", " or centring = 'batch'") if alone else (name, "")
        raise SettingsError(f"{by} compares episodes of one task draw: wanted group_size >= 2{otherwise}, found 1")
    if updates is not None and fixed.value_warmup >= updates:
        raise SettingsError(
            f"value_warmup = {fixed.value_warmup} leaves the policies none of {updates} updates: wanted fewer"
        )
    if shared and num_agents > 1 and fixed.compounding != "none":
        raise SettingsError(
            f"compounding = {fixed.compounding!r} weights agents by those updated before them: with one shared adapter "
            "all are updated at once; wanted separate adapters"
        )
    return fixed
