"""Registry of algorithms: the learner settings that each one fixes, and its own defaults.

There is one learner. To add an algorithm, add a row. New behaviour is a pure function in `advantages` or `objectives`
and a knob in `settings`. Equations: docs/algorithms.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from marft_agents.learning.settings import LearnerSettings
from marft_agents.setting_fields import SettingsError

TOKEN_KNOBS = ("token_discount", "token_trace_decay")
CRITIC_KNOBS = (
    *("critic_lr", "trace_decay", "value_trace_decay", "length_adaptive", "credit", *TOKEN_KNOBS),
    *("value_epochs", "value_mini_batches", "huber_delta", "value_clip", "value_width", "value_norm", "value_warmup"),
)
CHAIN = {"baseline": "critic", "credit": "chain"}
JOINT = {"baseline": "critic", "credit": "round"}
DRAWS = {"compare": "draw", "centring": "none", "branches": 0}
TOKENS = {"level": "token"}
WHOLE = {"level": "action", "averaging": "decision"}


@dataclass(frozen=True)
class Algorithm:
    """An algorithm: the settings that define it, and its defaults.

    Precedence: `fixes`, then the user's settings, `sets`, a preset, the defaults of `LearnerSettings`.

    Attributes:
        description: One line for the help text.
        source: Paper that introduced it, as an arXiv id.
        fixes: Settings that define the algorithm; the user cannot change them.
        sets: Default settings of the algorithm; the user can change them.
        single_agent: True if it trains teams of one agent only.
        min_branches: Fewest alternatives of a turn that it can compare; 0 if it needs no branches.
    """

    description: str
    source: str
    fixes: Mapping[str, Any]
    sets: Mapping[str, Any] = field(default_factory=dict)
    single_agent: bool = False
    min_branches: int = 0

    @property
    def critic(self) -> bool:
        """True if the algorithm trains a critic."""
        return bool(self.fixes["baseline"] == "critic")


ALGORITHMS = {
    "marft-a": Algorithm(
        "MARFT at action level: PPO over whole actions along the agent chain", "arXiv 2504.16129", CHAIN | WHOLE
    ),
    "marft-t": Algorithm("MARFT at token level: every token is a decision", "arXiv 2504.16129", CHAIN | TOKENS),
    "ppo-a": Algorithm("single-agent PPO over whole actions", "arXiv 1707.06347", CHAIN | WHOLE, single_agent=True),
    "ppo-t": Algorithm("single-agent PPO over tokens", "arXiv 1707.06347", CHAIN | TOKENS, single_agent=True),
    "grpo": Algorithm(
        "returns against the mean of their group, over its spread; KL to the base in the loss",
        "arXiv 2402.03300",
        DRAWS | TOKENS | {"baseline": "group", "scaling": "group", "averaging": "sequence"},
        {"kl_weight": 0.04},
    ),
    "dr-grpo": Algorithm(
        "GRPO without the two divisions that bias it: by the spread and by each action's length",
        "arXiv 2503.20783",
        DRAWS | TOKENS | {"baseline": "group", "scaling": "none", "averaging": "constant"},
    ),
    "dapo": Algorithm(
        "GRPO with a higher upper clip, a mean over tokens, dynamic sampling and soft punishment of long actions",
        "arXiv 2503.14476",
        DRAWS | TOKENS | {"baseline": "group", "scaling": "group", "averaging": "decision"},
        {"clip_high": 0.28, "dynamic_sampling": 4, "overlong_share": 0.2},
    ),
    "vapo": Algorithm(
        "token-level PPO with a pre-trained critic, its own lambda, a lambda by length, and NLL of what succeeded",
        "arXiv 2504.05118",
        CHAIN | TOKENS | {"averaging": "decision"},
        {
            "clip_high": 0.28,
            "discount": 1.0,
            "token_discount": 1.0,
            "value_trace_decay": 1.0,
            "length_adaptive": 0.05,
            "positive_nll": 0.1,
            "value_warmup": 50,
        },
    ),
    "gspo": Algorithm(
        "GRPO with one ratio per action, of its tokens' geometric mean",
        "arXiv 2507.18071",
        DRAWS | WHOLE | {"baseline": "group", "scaling": "group", "normalisation": "token"},
        {"clip_low": 3e-4, "clip_high": 4e-4},
    ),
    "rloo": Algorithm(
        "REINFORCE of whole actions against the mean return of the others; any KL is in the reward",
        "arXiv 2402.14740",
        DRAWS | WHOLE | {"baseline": "leave_one_out", "scaling": "none", "normalisation": "sum"},
        {"kl_place": "reward", "kl_estimator": "k1"},
    ),
    "reinforce++": Algorithm(
        "returns and the KL still to come, normalised per agent over the batch; no group needed",
        "arXiv 2501.03262",
        TOKENS
        | {"baseline": "none", "compare": "draw", "centring": "batch", "scaling": "agent", "averaging": "decision"}
        | {"branches": 0},
        {"kl_weight": 0.01, "kl_place": "reward", "kl_estimator": "k1"},
    ),
    "at-grpo": Algorithm(
        "GRPO whose groups are an agent's turns in the same round, or (--branches) alternatives of the same turn",
        "arXiv 2510.11062",
        TOKENS
        | {"baseline": "group", "compare": "turn", "centring": "none", "scaling": "group", "averaging": "sequence"},
        {"discount": 1.0},
    ),
    "c3": Algorithm(
        "alternatives of one turn, the rest replayed, each against the mean of the others",
        "arXiv 2603.06859",
        TOKENS
        | {"baseline": "leave_one_out", "compare": "turn", "centring": "none", "scaling": "none"}
        | {"averaging": "decision"},
        {"branches": 4, "discount": 1.0},
        min_branches=2,
    ),
    "mappo": Algorithm(
        "one joint advantage for all who act in a round, from values of normalised returns",
        "arXiv 2103.01955",
        JOINT,
        {"value_norm": True},
    ),
    "ippo": Algorithm(
        "each agent by itself, with a value head of its own",
        "arXiv 2011.09533",
        {"baseline": "critic", "credit": "own"},
    ),
    "happo": Algorithm(
        "agents one by one in random order, each weighted by the ratios of those before it",
        "arXiv 2109.11251",
        JOINT | {"compounding": "happo", "agent_interval": 0},
        {"agent_order": "random"},
    ),
    "a2po": Algorithm(
        "agents one by one, the advantage corrected for those before; their ratio gets half of a clip that widens",
        "arXiv 2302.06205",
        JOINT | {"compounding": "a2po", "agent_interval": 0},
        {"agent_order": "semi-greedy", "clip_start": 0.5},
    ),
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
    """Return the settings of an algorithm, from its fixed settings, the user's, its defaults and a preset.

    An earlier source in that list takes precedence over a later one.

    Args:
        name: Name of the algorithm.
        preset: Values that replace the defaults of `LearnerSettings`; those without effect here are ignored.
        **given: Settings given by the user.

    Raises:
        SettingsError: The name is unknown, or a given setting contradicts the algorithm or has no effect on it.

    Example:
        >>> learner_settings("gspo", policy_lr=1e-4).normalisation
        'token'
    """
    chosen = algorithm(name)
    for knob, value in given.items():
        if knob in chosen.fixes and chosen.fixes[knob] != value:
            raise SettingsError(f"{knob} = {value!r} contradicts {name}, which is defined by {chosen.fixes[knob]!r}")
        if knob in CRITIC_KNOBS and not chosen.critic:
            raise SettingsError(f"{knob} = {value!r} means nothing to {name}, which trains no critic: leave it out")
    said = {**chosen.sets, **given, **chosen.fixes}
    return LearnerSettings(**{**_meaningful(preset or {}, said), **said})


def _meaningful(preset: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a preset that have an effect, given the settings that take precedence."""
    values = {item.name: item.default for item in dataclasses.fields(LearnerSettings)} | dict(preset) | dict(said)
    unused = {knob for knob in preset if knob not in LearnerSettings.__dataclass_fields__}
    if values["baseline"] != "critic":
        unused |= set(CRITIC_KNOBS)
    if values["level"] != "token" or values["credit"] == "round":
        unused |= set(TOKEN_KNOBS)
    if values["length_adaptive"]:
        unused.add("token_trace_decay")
    return {knob: value for knob, value in preset.items() if knob not in unused}


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
    for item in dataclasses.fields(settings):
        value = getattr(settings, item.name)
        if item.name in chosen.fixes and value not in (item.default, chosen.fixes[item.name]):
            raise SettingsError(
                f"{item.name} = {value!r} contradicts {name}, which is defined by {chosen.fixes[item.name]!r}"
            )
    fixed = replace(settings, **chosen.fixes)
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
