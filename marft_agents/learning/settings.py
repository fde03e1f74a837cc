"""Learner settings as one flat record: fields with defaults, help texts, range checks, and conditions.

A setting that has no effect under the other settings is refused where its field gives the reason, else ignored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from marft_agents.setting_fields import SettingsError, check_knobs, knob

Level = Literal["action", "token"]
Normalisation = Literal["sum", "token", "word"]
Baseline = Literal["critic", "group", "leave_one_out", "none"]
Compare = Literal["draw", "turn"]
Credit = Literal["chain", "round", "own"]
ChainLinks = Literal["order", "reads"]
Rewards = Literal["team", "own"]
Centring = Literal["batch", "group", "none"]
Scaling = Literal["agent", "group", "batch", "batch-nonzero", "none"]
Averaging = Literal["decision", "sequence", "constant"]
KlEstimator = Literal["k1", "k2", "k3"]
Order = Literal["fixed", "random", "reverse", "semi-greedy"]
Compounding = Literal["none", "bounded", "happo", "a2po"]

Values = Mapping[str, Any]  # settings by name


# ------------------------------------------------------------------ conditions of settings


def _scores_actions(values: Values) -> bool:
    return bool(values["level"] == "action")


def _scores_tokens(values: Values) -> bool:
    return bool(values["level"] == "token")


def _trains_critic(values: Values) -> bool:
    return bool(values["baseline"] == "critic")


def _values_tokens(values: Values) -> bool:
    """Return True if a critic values every token of an action."""
    return _trains_critic(values) and _scores_tokens(values) and values["credit"] != "round"


def _runs_along_chain(values: Values) -> bool:
    return _trains_critic(values) and values["credit"] == "chain"


def _decays_alike(values: Values) -> bool:
    """Return True if lambda between tokens is the same for actions of any length."""
    return _values_tokens(values) and not values["length_adaptive"]


def _compares(values: Values) -> bool:
    """Return True if returns are compared with those of a group."""
    return values["baseline"] in ("group", "leave_one_out")


def _compares_turns(values: Values) -> bool:
    return _compares(values) and values["compare"] == "turn"


def _trains_all(values: Values) -> bool:
    return not values["agent_interval"]


_NO_CRITIC = "baseline = {baseline!r} trains no critic: "
_NO_TOKEN_VALUES = (
    "token_discount = {token_discount}, token_trace_decay = {token_trace_decay}: they apply from the value of one "
    "token of an action to that of the next, and here tokens have no values: wanted 1 for both, or level = 'token' "
    "with baseline = 'critic' and credit = 'chain' or 'own'"
)
_ONE_UPDATE = (
    "agent_order = 'semi-greedy' and clip_start < 1 are about the agents of one update: set agent_interval to 0"
)


def _positive(value: float) -> bool:
    return value > 0


def _positive_or_none(value: float | None) -> bool:
    return value is None or value > 0


def _not_negative(value: float) -> bool:
    return value >= 0


def _share(value: float) -> bool:
    return 0 <= value <= 1


def recomputed_share() -> Any:
    """Declare the field `gradient_checkpointing`, which training and fine-tuning have."""
    return knob(
        None,
        "share of the layers that the backward pass recomputes instead of storing them; 0: fastest, 1: least memory; "
        "none: 0.5 on a CPU, on a GPU as little as its memory allows",
        lambda value: value is None or _share(value),
        "in [0, 1] or none",
    )


def most_sequences(kind: str) -> Any:
    """Declare the field `micro_batch`, which training and fine-tuning have."""
    return knob(
        None,
        f"most {kind} per forward pass (changes memory, not results); none: 16 on a CPU, any number on a GPU",
        _positive_or_none,
        ">= 1 or none",
    )


@dataclass(frozen=True)
class LearnerSettings:
    """Settings of one update: algorithm, optimizer, credit assignment and order of the agents.

    Flags and config.json have these fields. Settings that contradict each other are refused.

    The default of a new field must reproduce the behaviour before the field: older checkpoints resume with it.
    """

    level: Level = knob("action", "decision that gets an advantage: a whole action (MARFT-A) or each token (MARFT-T)")
    normalisation: Normalisation = knob(
        "sum",
        "divisor of an action's log-prob at action level: 1 (sum), its number of tokens (token) or words (word)",
        only=_scores_actions,
        reason="normalisation = {normalisation!r} has no meaning at token level, wanted 'sum'",
    )
    baseline: Baseline = knob(
        "critic",
        "baseline of a return: value function (critic), mean of its group (group), mean of the others in its group "
        "(leave_one_out), or none",
    )
    compare: Compare = knob(
        "draw",
        "group of a return without a critic: an agent's turns in all episodes of a prompt group, with the episode "
        "returns (draw); or its turns in the same round (in branches: the same turn), with the reward-to-go (turn)",
        only=_compares,
        reason="compare = 'turn' is about the groups of turns: wanted baseline = 'group' or 'leave_one_out', found "
        "{baseline!r}",
    )
    credit: Credit = knob(
        "chain",
        "steps of GAE with a critic: the turns of the whole team (chain, MARFT), rounds with one joint advantage "
        "(round, MAPPO), or each agent's own turns with its own value head (own, IPPO)",
        only=_trains_critic,
        reason=_NO_CRITIC + "credit = {credit!r} has nothing to run along",
    )
    chain_links: ChainLinks = knob(
        "order",
        "turn whose value follows a turn of the chain: the next one (order), or in an agent program the first that "
        "read it (reads; after one that nobody read comes the end)",
        only=_runs_along_chain,
        reason="chain_links = {chain_links!r} are those of the chain: wanted credit = 'chain' with baseline = 'critic'",
    )
    rewards: Rewards = knob(
        "team",
        "rewards that train an agent: the team's, the mean over agents where they differ (team), or the agent's own "
        "(own; with credit = own or without a critic)",
    )
    centring: Centring = knob(
        "batch",
        "subtract the mean advantage per agent over the batch (batch), per agent over a prompt group (group), or none",
    )
    scaling: Scaling = knob(
        "agent",
        "normalise advantages per agent (agent), divide by the standard deviation of their group (group), normalise "
        "over all agents (batch), the same over nonzero advantages only (batch-nonzero; while V = 0 solved actions are "
        "then compared with each other alone), or none",
    )
    averaging: Averaging = knob(
        "decision",
        "average the loss over all decisions (decision), over actions by their means (sequence), or over actions by "
        "their sums divided by the token limit (constant)",
        only=_scores_tokens,
        reason="averaging = {averaging!r} weighs tokens, and at action level there is one decision per action: wanted "
        "'decision'",
    )
    policy_lr: float = knob(1e-6, "learning rate (Adam) of the LoRA adapters", _positive, "> 0")
    critic_lr: float = knob(
        1e-5,
        "learning rate (Adam) of the value head",
        _positive,
        "> 0",
        only=_trains_critic,
    )
    lr_schedule: Literal["constant", "cosine"] = knob(
        "constant", "schedule of the step sizes: constant, or cosine decay to zero over the run"
    )
    adam_epsilon: float = knob(1e-5, "epsilon of Adam", _positive, "> 0")
    max_grad_norm: float = knob(0.5, "gradient clipping: largest norm of a gradient", _positive, "> 0")
    discount: float = knob(0.99, "discount gamma between turns along the chain", _share, "in [0, 1]")
    trace_decay: float = knob(
        0.95,
        "GAE lambda between turns along the chain",
        _share,
        "in [0, 1]",
        only=_trains_critic,
    )
    value_trace_decay: float | None = knob(
        None,
        "lambda of the critic's targets, between turns and between tokens; none: same as for the advantages",
        lambda value: value is None or _share(value),
        "in [0, 1] or none",
        only=_trains_critic,
        reason=_NO_CRITIC + "wanted value_trace_decay = none",
    )
    token_discount: float = knob(
        1.0,
        "discount gamma between the tokens of an action, at token level",
        _share,
        "in [0, 1]",
        only=_values_tokens,
        reason=_NO_TOKEN_VALUES,
    )
    token_trace_decay: float = knob(
        1.0,
        "GAE lambda between the tokens of an action, at token level",
        _share,
        "in [0, 1]",
        only=_decays_alike,
        reason=_NO_TOKEN_VALUES,
    )
    length_adaptive: float = knob(
        0.0,
        "alpha of length-adaptive GAE (VAPO): lambda between the l tokens of an action is 1 - 1 / (alpha l); "
        "0: use token_trace_decay",
        _not_negative,
        ">= 0",
        only=_values_tokens,
        reason="length_adaptive is the lambda between tokens: wanted a critic of every token (level = 'token', "
        "baseline = 'critic', credit = 'chain' or 'own')",
    )
    clip_low: float = knob(0.2, "epsilon of the PPO clip below 1", _share, "in [0, 1]")
    clip_high: float = knob(0.2, "epsilon of the PPO clip above 1", _positive, "> 0")
    importance_cap: float = knob(
        2.0,
        "cap of the importance weight pi_old / mu of actions sampled by another engine mu",
        _positive,
        "> 0",
    )
    entropy_bonus: float = knob(0.0, "weight of the mean token entropy in the objective", _not_negative, ">= 0")
    kl_weight: float = knob(
        0.0, "weight of the KL penalty to the base model without adapter; 0: not computed", _not_negative, ">= 0"
    )
    kl_estimator: KlEstimator = knob("k3", "KL estimator: k1, k2 or k3 (k1 in the loss has no gradient in expectation)")
    kl_place: Literal["loss", "reward"] = knob(
        "loss", "place of the KL penalty: a term of the loss, or a cost per token in the reward"
    )
    positive_nll: float = knob(
        0.0, "weight of the negative log-likelihood of actions in successful episodes", _not_negative, ">= 0"
    )
    replay_share: float = knob(
        0.0,
        "replayed actions per action of the update; their mean negative log-likelihood joins the loss with this "
        "weight; 0: none",
        _not_negative,
        ">= 0",
    )
    overlong_share: float = knob(
        0.0, "last share of the token limit in which longer actions are punished (DAPO); 0: none", _share, "in [0, 1]"
    )
    overlong_penalty: float = knob(
        1.0, "punishment of an action that reaches the token limit, with overlong_share", _not_negative, ">= 0"
    )
    ppo_epochs: int = knob(1, "PPO epochs: passes over a batch", _positive, ">= 1")
    mini_batches: int = knob(1, "mini-batches: optimizer steps per pass", _positive, ">= 1")
    micro_batch: int | None = most_sequences("sequences")
    micro_batch_tokens: int | None = knob(
        None,
        "most distinct tokens per forward pass (changes memory, not results); none: on a GPU what its memory holds, on "
        "a CPU any number",
        _positive_or_none,
        ">= 1 or none",
    )
    gradient_checkpointing: bool | float | None = recomputed_share()
    kl_stop: float | None = knob(
        None,
        "early stopping: end an agent's passes when its KL to the old policy exceeds this (nats per decision)",
        _positive_or_none,
        "> 0 or none",
    )
    value_epochs: int = knob(
        4,
        "passes of value regression per update",
        _positive,
        ">= 1",
        only=_trains_critic,
    )
    value_mini_batches: int = knob(
        4,
        "optimizer steps per pass of value regression",
        _positive,
        ">= 1",
        only=_trains_critic,
    )
    huber_delta: float = knob(
        10.0,
        "error at which the Huber loss of values turns linear",
        _positive,
        "> 0",
        only=_trains_critic,
    )
    value_clip: float | None = knob(
        None,
        "PPO value clipping: largest change of a value in an update, on the scale of the head, in the larger of the "
        "clipped and unclipped loss; none: no clipping",
        _positive_or_none,
        "> 0 or none",
        only=_trains_critic,
        reason=_NO_CRITIC + "wanted value_clip = none",
    )
    value_width: int = knob(
        256,
        "hidden units of the value head",
        lambda value: value >= 1,
        ">= 1",
        only=_trains_critic,
    )
    value_norm: bool = knob(
        False,
        "normalise the critic's targets by the running mean and standard deviation of returns (MAPPO)",
        only=_trains_critic,
        reason=_NO_CRITIC + "wanted value_norm = False",
    )
    value_warmup: int = knob(
        0,
        "number of first updates that train only the critic",
        _not_negative,
        ">= 0",
        only=_trains_critic,
        reason=_NO_CRITIC + "wanted value_warmup = 0, found {value_warmup}",
    )
    agent_interval: int = knob(
        0,
        "0: train all agents in every update, one by one; n: train one agent at a time, for n updates each",
        _not_negative,
        ">= 0",
    )
    agent_order: Order = knob(
        "fixed",
        "update order of the agents: fixed, random, reverse, or semi-greedy (A2PO): alternately the agent with the "
        "largest mean |advantage| and a random one",
    )
    compounding: Compounding = knob(
        "none",
        "correct each agent for those updated before it: none, times the product of their ratios (happo), the same "
        "with each ratio clipped (bounded), or as in A2PO (a2po)",
        only=_trains_all,
        reason="compounding needs every update to train all agents: set agent_interval to 0 or compounding to none",
    )
    clip_start: float = knob(
        1.0,
        "c of the widening clip (A2PO): the k-th of n agents gets c + (1 - c) k / n of the clip bounds; 1: all the "
        "same",
        _share,
        "in [0, 1]",
        only=_trains_all,
        reason=_ONE_UPDATE,
    )
    dynamic_sampling: int = knob(
        0,
        "dynamic sampling (DAPO): at most n extra rounds of rollouts to replace zero-advantage groups, those left are "
        "dropped; 0: train on all groups",
        _not_negative,
        ">= 0",
    )
    branches: int = knob(
        0,
        "n: replay an episode up to a turn and train n alternatives of that turn; 0: train whole episodes",
        lambda value: value == 0 or value >= 2,
        "0 or >= 2",
        only=_compares_turns,
        reason="branches = {branches} are alternatives of one turn: wanted compare = 'turn' and baseline = 'group' or "
        "'leave_one_out'",
    )

    def __post_init__(self) -> None:
        check_knobs(self)
        for reason in _contradictions(vars(self)):
            raise SettingsError(reason.format(**vars(self)))

    @property
    def critic(self) -> bool:
        """True if the settings train a value head."""
        return self.baseline == "critic"

    @property
    def costs_kl(self) -> bool:
        """True if the KL penalty to the base model is a cost per token in the reward."""
        return self.kl_weight > 0 and self.kl_place == "reward"

    @property
    def penalises_kl(self) -> bool:
        """True if the KL penalty to the base model is a term of the loss."""
        return self.kl_weight > 0 and self.kl_place == "loss"

    @property
    def compares_draws(self) -> bool:
        """True if advantages compare the episodes of a prompt group, which then needs at least two of them."""
        return self.branches == 0 and (self.baseline in ("group", "leave_one_out") or self.centring == "group")


def without_effect(values: Values) -> set[str]:
    """Return the settings that have no effect under these values of all settings."""
    found = set()
    for name, field in _FIELDS.items():
        has_effect = field.metadata.get("only")
        if has_effect is not None and not has_effect(values):
            found.add(name)
    return found


def _contradictions(values: Values) -> Iterator[str]:
    """Yield the reasons, with fields for the values, why settings exclude each other."""
    if _values_tokens(values) and values["length_adaptive"] and values["token_trace_decay"] != 1:
        yield (
            "length_adaptive = {length_adaptive} and token_trace_decay = {token_trace_decay} are both the lambda "
            "between tokens: wanted length_adaptive = 0 or token_trace_decay = 1"
        )
    # A setting without effect is a mistake only where its field says why, and where it is not at its default.
    ineffective = without_effect(values)
    for name, field in _FIELDS.items():
        if name in ineffective and "reason" in field.metadata and values[name] != field.default:
            yield field.metadata["reason"]
    if values["rewards"] == "own" and _trains_critic(values) and values["credit"] != "own":
        yield (
            "rewards = 'own': with credit = {credit!r} the critic estimates the return of the whole team: wanted "
            "credit = 'own' (algorithm ippo), or an algorithm without a critic, such as grpo or rloo"
        )
    if values["rewards"] == "own" and values["compounding"] != "none":
        yield (
            "rewards = 'own': compounding = {compounding!r} weights agents by those updated before them, which holds "
            "for a reward that they share: wanted compounding = 'none'"
        )
    if values["agent_interval"] and values["agent_order"] == "semi-greedy":
        yield _ONE_UPDATE
    if values["scaling"] == "batch-nonzero" and values["centring"] != "none":
        yield (
            "scaling = 'batch-nonzero' subtracts the mean of the batch itself, after which nothing would be zero: "
            "wanted centring = 'none', found {centring!r}"
        )
    if values["scaling"] == "group" and not _compares(values):
        yield (
            "scaling = 'group' divides by the spread of the returns that are compared: wanted baseline = 'group' or "
            "'leave_one_out'"
        )
    if values["dynamic_sampling"] and not (_compares(values) or values["centring"] == "group"):
        yield (
            "dynamic_sampling draws again for groups whose outcomes all agree: wanted baseline = 'group' or "
            "'leave_one_out', or centring = 'group'"
        )
    if values["branches"] and values["compounding"] != "none":
        yield "compounding needs the turns of all agents of a round, branches train one: wanted one of the two"
    if values["compounding"] == "a2po" and values["credit"] != "round":
        yield "compounding = 'a2po' corrects the joint advantage: wanted credit = 'round', found {credit!r}"


_FIELDS = {field.name: field for field in dataclasses.fields(LearnerSettings)}
DEFAULTS = {name: field.default for name, field in _FIELDS.items()}
_OF_TOKENS = DEFAULTS | {"level": "token"}
# settings that only a critic reads
CRITIC_KNOBS = without_effect(_OF_TOKENS | {"baseline": "group"}) - without_effect(_OF_TOKENS)
