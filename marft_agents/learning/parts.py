"""Algorithm components as types: decision unit, credit source, grouping, KL penalty and update schedule.

A part has fields only for settings that mean something to it. An algorithm is made of parts, so most contradictions
cannot be written down. `parts_of` alone maps the flat record `LearnerSettings` onto parts. One rule refuses a setting
of a part that is not selected. In the definition of an algorithm a field that is None is left to the user.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from marft_agents.setting_fields import SettingsError

Normalisation = Literal["sum", "token", "word"]
Averaging = Literal["decision", "sequence", "constant"]
Level = Literal["action", "token"]
Baseline = Literal["critic", "group", "leave_one_out", "none"]
GroupBaseline = Literal["group", "leave_one_out"]
Compare = Literal["draw", "turn"]
Credit = Literal["chain", "round", "own"]
Rewards = Literal["team", "own"]
KlEstimator = Literal["k1", "k2", "k3"]
Centring = Literal["batch", "group", "none"]
Scaling = Literal["agent", "group", "batch", "batch-nonzero", "none"]
Order = Literal["fixed", "random", "reverse", "semi-greedy"]
Compounding = Literal["none", "bounded", "happo", "a2po"]


@dataclass(frozen=True)
class Part:
    """Base class of all parts; the fields are settings of `LearnerSettings` under the same names.

    Attributes:
        selects: Settings that select this part.
    """

    selects: ClassVar[Mapping[str, Any]] = {}

    @property
    def fixes(self) -> dict[str, Any]:
        """Settings that this part fixes in the definition of an algorithm."""
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**self.selects, **{name: value for name, value in given.items() if value is not None}}


@dataclass(frozen=True)
class WholeActions(Part):
    """A decision is a whole action with one importance ratio; there is nothing to average within it."""

    selects: ClassVar[Mapping[str, Any]] = {"level": "action", "averaging": "decision"}
    normalisation: Normalisation | None = None


@dataclass(frozen=True)
class Tokens(Part):
    """Every token is a decision with a ratio of its own."""

    selects: ClassVar[Mapping[str, Any]] = {"level": "token"}
    averaging: Averaging | None = None


@dataclass(frozen=True)
class Critic(Part):
    """GAE along the chain, rounds or own turns, with a trained value function."""

    selects: ClassVar[Mapping[str, Any]] = {"baseline": "critic"}
    credit: Credit | None = None
    critic_lr: float | None = None
    trace_decay: float | None = None
    value_trace_decay: float | None = None
    value_epochs: int | None = None
    value_mini_batches: int | None = None
    huber_delta: float | None = None
    value_clip: float | None = None
    value_width: int | None = None
    value_norm: bool | None = None
    value_warmup: int | None = None


@dataclass(frozen=True)
class TokenTraces(Part):
    """Gamma and lambda between the tokens of an action, with a critic of every token."""

    token_discount: float | None = None
    token_trace_decay: float | None = None


@dataclass(frozen=True)
class LengthAdaptiveTraces(Part):
    """Lambda between tokens by the length of the action (VAPO), in place of a constant one."""

    token_discount: float | None = None
    length_adaptive: float | None = None


@dataclass(frozen=True)
class PromptGroups(Part):
    """Returns of episodes against those of their prompt group; no critic."""

    selects: ClassVar[Mapping[str, Any]] = {"compare": "draw", "branches": 0}
    baseline: GroupBaseline
    scaling: Scaling | None = None
    centring: Centring | None = "none"


@dataclass(frozen=True)
class TurnGroups(Part):
    """Rewards-to-go of turns against those of the same turn or round; no critic."""

    selects: ClassVar[Mapping[str, Any]] = {"compare": "turn"}
    baseline: GroupBaseline
    scaling: Scaling | None = None
    centring: Centring | None = "none"
    branches: int | None = None


@dataclass(frozen=True)
class PlainReturns(Part):
    """Returns without a baseline, normalised over a batch; neither critic nor groups."""

    selects: ClassVar[Mapping[str, Any]] = {"baseline": "none", "compare": "draw", "branches": 0}
    scaling: Scaling | None = None
    centring: Centring | None = None


@dataclass(frozen=True)
class KlInLoss(Part):
    """KL penalty to the base model as a term of the loss; weight 0: none."""

    selects: ClassVar[Mapping[str, Any]] = {"kl_place": "loss"}
    kl_weight: float | None = None
    kl_estimator: KlEstimator | None = None


@dataclass(frozen=True)
class KlInReward(Part):
    """KL penalty to the base model as a cost per token in the reward; weight 0: none."""

    selects: ClassVar[Mapping[str, Any]] = {"kl_place": "reward"}
    kl_weight: float | None = None
    kl_estimator: KlEstimator | None = None


@dataclass(frozen=True)
class AllAgents(Part):
    """All agents are trained in every update, one after the other."""

    selects: ClassVar[Mapping[str, Any]] = {"agent_interval": 0}
    compounding: Compounding | None = None
    clip_start: float | None = None


@dataclass(frozen=True)
class OneAgentAtATime(Part):
    """One agent is trained for n updates, the others are frozen; an update has no order of agents."""

    agent_interval: int


Decision = WholeActions | Tokens
CreditSource = Critic | PromptGroups | TurnGroups | PlainReturns
KlPenalty = KlInLoss | KlInReward


def names_of(*kinds: type[Part]) -> frozenset[str]:
    """Return the settings that kinds of parts give a meaning to."""
    return frozenset(field.name for kind in kinds for field in dataclasses.fields(kind)).union(
        *(kind.selects for kind in kinds)
    )


def kinds_of(values: Mapping[str, Any]) -> list[type[Part]]:
    """Return the kinds of parts that settings select: decision, credit, traces, KL penalty and schedule.

    Args:
        values: Settings of `LearnerSettings` by name.
    """
    kinds: list[type[Part]] = [Tokens if values["level"] == "token" else WholeActions]
    if values["baseline"] == "critic":
        kinds.append(Critic)
        if values["level"] == "token" and values["credit"] != "round":
            kinds.append(LengthAdaptiveTraces if values["length_adaptive"] else TokenTraces)
    elif values["baseline"] == "none":
        kinds.append(PlainReturns)
    else:
        kinds.append(TurnGroups if values["compare"] == "turn" else PromptGroups)
    kinds.append(KlInReward if values["kl_place"] == "reward" else KlInLoss)
    return [*kinds, OneAgentAtATime if values["agent_interval"] else AllAgents]


def parts_of(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[Part]:
    """Map flat settings onto the parts of a learner: decision, credit, traces between tokens if any, KL and schedule.

    Args:
        values: All settings of `LearnerSettings` by name.
        defaults: Default of each setting by name.

    Raises:
        SettingsError: A setting of a part that is not selected differs from its default, or two parts exclude each
            other; the message says which and what to do.
    """
    kinds = kinds_of(values)
    meaningful = names_of(*kinds)
    for name, reason in REASONS.items():
        if name not in meaningful and values[name] != defaults[name]:
            both = LengthAdaptiveTraces in kinds and name == "token_trace_decay"
            raise SettingsError((_TWO_LAMBDAS if both else reason).format(**values))
    for kind in kinds:
        for name, wanted in kind.selects.items():
            if values[name] != wanted:
                raise SettingsError(REASONS[name].format(**values))
    for found, reason in _exclusions(values, kinds):
        if found:
            raise SettingsError(reason.format(**values))
    return [kind(**{field.name: values[field.name] for field in dataclasses.fields(kind)}) for kind in kinds]


_NO_CRITIC = "baseline = {baseline!r} trains no critic: "
_NO_TOKEN_VALUES = (
    "token_discount = {token_discount}, token_trace_decay = {token_trace_decay}: they apply from the value of one "
    "token of an action to that of the next, and here tokens have no values: wanted 1 for both, or level = 'token' "
    "with baseline = 'critic' and credit = 'chain' or 'own'"
)
_TWO_LAMBDAS = (
    "length_adaptive = {length_adaptive} and token_trace_decay = {token_trace_decay} are both the lambda between "
    "tokens: wanted length_adaptive = 0 or token_trace_decay = 1"
)
# For a setting of a part that is not selected; a number that an unselected part would merely ignore is not listed.
REASONS = {
    "normalisation": "normalisation = {normalisation!r} has no meaning at token level, wanted 'sum'",
    "averaging": "averaging = {averaging!r} weighs tokens, and at action level there is one decision per action: "
    "wanted 'decision'",
    "credit": _NO_CRITIC + "credit = {credit!r} has nothing to run along",
    "value_warmup": _NO_CRITIC + "wanted value_warmup = 0, found {value_warmup}",
    "value_trace_decay": _NO_CRITIC + "wanted value_trace_decay = none",
    "value_norm": _NO_CRITIC + "wanted value_norm = False",
    "value_clip": _NO_CRITIC + "wanted value_clip = none",
    "compare": "compare = 'turn' is about the groups of turns: wanted baseline = 'group' or 'leave_one_out', found "
    "{baseline!r}",
    "branches": "branches = {branches} are alternatives of one turn: wanted compare = 'turn' and baseline = 'group' or "
    "'leave_one_out'",
    "length_adaptive": "length_adaptive is the lambda between tokens: wanted a critic of every token (level = 'token', "
    "baseline = 'critic', credit = 'chain' or 'own')",
    "token_discount": _NO_TOKEN_VALUES,
    "token_trace_decay": _NO_TOKEN_VALUES,
    "compounding": "compounding needs every update to train all agents: set agent_interval to 0 or compounding to none",
    "clip_start": "agent_order = 'semi-greedy' and clip_start < 1 are about the agents of one update: set "
    "agent_interval to 0",
}


def _exclusions(values: Mapping[str, Any], kinds: list[type[Part]]) -> list[tuple[bool, str]]:
    """Return pairs (found, reason) for settings of two parts, or of none, that exclude each other."""
    grouped = PromptGroups in kinds or TurnGroups in kinds
    own_rewards = values["rewards"] == "own"
    return [
        (
            own_rewards and Critic in kinds and values["credit"] != "own",
            "rewards = 'own': with credit = {credit!r} the critic estimates the return of the whole team: wanted "
            "credit = 'own' (algorithm ippo), or an algorithm without a critic, such as grpo or rloo",
        ),
        (
            own_rewards and values["compounding"] != "none",
            "rewards = 'own': compounding = {compounding!r} weights agents by those updated before them, which holds "
            "for a reward that they share: wanted compounding = 'none'",
        ),
        (OneAgentAtATime in kinds and values["agent_order"] == "semi-greedy", REASONS["clip_start"]),
        (
            values["scaling"] == "batch-nonzero" and values["centring"] != "none",
            "scaling = 'batch-nonzero' subtracts the mean of the batch itself, after which nothing would be zero: "
            "wanted centring = 'none', found {centring!r}",
        ),
        (
            values["scaling"] == "group" and not grouped,
            "scaling = 'group' divides by the spread of the returns that are compared: wanted baseline = 'group' or "
            "'leave_one_out'",
        ),
        (
            values["dynamic_sampling"] > 0 and not (grouped or values["centring"] == "group"),
            "dynamic_sampling draws again for groups whose outcomes all agree: wanted baseline = 'group' or "
            "'leave_one_out', or centring = 'group'",
        ),
        (
            values["branches"] > 0 and values["compounding"] != "none",
            "compounding needs the turns of all agents of a round, branches train one: wanted one of the two",
        ),
        (
            values["compounding"] == "a2po" and values["credit"] != "round",
            "compounding = 'a2po' corrects the joint advantage: wanted credit = 'round', found {credit!r}",
        ),
    ]
