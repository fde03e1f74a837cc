"""Settings of the learner, with the combinations that contradict each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from marft_agents.setting_fields import SettingsError, check_knobs, knob

Normalisation = Literal["sum", "token", "word"]
Averaging = Literal["decision", "sequence", "constant"]
KlEstimator = Literal["k1", "k2", "k3"]
Level = Literal["action", "token"]
Baseline = Literal["critic", "group", "leave_one_out", "none"]
Compare = Literal["draw", "turn"]
Credit = Literal["chain", "round", "own"]
Scaling = Literal["agent", "group", "batch", "batch-nonzero", "none"]
Order = Literal["fixed", "random", "reverse", "semi-greedy"]
Compounding = Literal["none", "bounded", "happo", "a2po"]


def _positive(value: float) -> bool:
    return value > 0


def _not_negative(value: float) -> bool:
    return value >= 0


def _share(value: float) -> bool:
    return 0 <= value <= 1


@dataclass(frozen=True)
class LearnerSettings:
    """Everything the update needs to know.

    The default of a new field must be what was done before there was the field: older checkpoints resume with it.
    """

    level: Level = knob("action", "what a decision is: a whole action (MARFT-A) or each token (MARFT-T)")
    normalisation: Normalisation = knob(
        "sum", "how an action's log-prob is normalised at action level: sum, token or word"
    )
    baseline: Baseline = knob(
        "critic",
        "what a return is compared with: the critic's value, the mean of its group, the mean of the others of its "
        "group, or nothing",
    )
    compare: Compare = knob(
        "draw",
        "what a group is without a critic: an agent's turns in the episodes of a task draw, by the episodes' returns; "
        "or its turns in the same round (of a branch: the same turn), by what follows them",
    )
    credit: Credit = knob(
        "chain",
        "what the critic's advantage runs along: turn after turn of the team (MARFT), rounds with one advantage for "
        "all (MAPPO), or each agent's own turns with a value head of its own (IPPO)",
    )
    centring: Literal["batch", "group", "none"] = knob(
        "batch",
        "advantages are centred per agent over the batch, or per agent over the episodes of one task draw, or not",
    )
    scaling: Scaling = knob(
        "agent",
        "advantages are normalised per agent, divided by the spread of their group, normalised over all agents (those "
        "that are exactly zero with the others, or left out and left zero), or not",
    )
    averaging: Averaging = knob(
        "decision",
        "the loss is the mean over decisions, the mean over actions of their means, or the mean over actions of their "
        "sums divided by the token limit",
    )
    policy_lr: float = knob(1e-6, "Adam step size of the adapters", _positive, "> 0")
    critic_lr: float = knob(1e-5, "Adam step size of the value head", _positive, "> 0")
    lr_schedule: Literal["constant", "cosine"] = knob("constant", "constant, or cosine decay to zero over the run")
    adam_epsilon: float = knob(1e-5, "epsilon of Adam", _positive, "> 0")
    max_grad_norm: float = knob(0.5, "gradients are scaled down to this norm", _positive, "> 0")
    discount: float = knob(0.99, "gamma between turns along the chain", _share, "in [0, 1]")
    trace_decay: float = knob(0.95, "lambda of GAE between turns along the chain", _share, "in [0, 1]")
    value_trace_decay: float | None = knob(
        None,
        "lambda of the critic's targets, inside turns too; none: that of the advantages",
        lambda value: value is None or _share(value),
        "in [0, 1] or none",
    )
    token_discount: float = knob(1.0, "gamma between the tokens of an action, at token level", _share, "in [0, 1]")
    token_trace_decay: float = knob(
        1.0, "lambda of GAE between the tokens of an action, at token level", _share, "in [0, 1]"
    )
    length_adaptive: float = knob(
        0.0,
        "alpha > 0: lambda between the tokens of an action of l tokens is 1 - 1 / (alpha l); 0: token_trace_decay",
        _not_negative,
        ">= 0",
    )
    clip_low: float = knob(0.2, "epsilon of the PPO clip below 1", _share, "in [0, 1]")
    clip_high: float = knob(0.2, "epsilon of the PPO clip above 1", _positive, "> 0")
    importance_cap: float = knob(
        2.0,
        "actions that another engine sampled are weighted by pi_old / mu, at most this",
        _positive,
        "> 0",
    )
    entropy_bonus: float = knob(0.0, "weight of the mean token entropy", _not_negative, ">= 0")
    kl_weight: float = knob(0.0, "weight of the KL to the base without adapter; 0 computes none", _not_negative, ">= 0")
    kl_estimator: KlEstimator = knob("k3", "k1, k2 or k3 (k1 in the loss has no gradient in expectation)")
    kl_place: Literal["loss", "reward"] = knob(
        "loss", "the KL is a term of the loss, or a cost of each token in the reward"
    )
    positive_nll: float = knob(
        0.0, "weight of the negative log-likelihood of the actions of successful episodes", _not_negative, ">= 0"
    )
    overlong_share: float = knob(
        0.0, "last share of the token limit in which an action's length is punished; 0: none", _share, "in [0, 1]"
    )
    overlong_penalty: float = knob(1.0, "punishment of an action that reaches the token limit", _not_negative, ">= 0")
    ppo_epochs: int = knob(1, "passes over a batch", _positive, ">= 1")
    mini_batches: int = knob(1, "optimizer steps per pass", _positive, ">= 1")
    micro_batch: int = knob(16, "sequences per forward pass (memory, not results)", _positive, ">= 1")
    gradient_checkpointing: bool = knob(
        False, "compute each layer again in the backward pass instead of keeping it: a third of the memory, slower"
    )
    kl_stop: float | None = knob(
        None,
        "stop an agent's passes when its KL to the sampling policy exceeds this (nats per decision)",
        lambda value: value is None or value > 0,
        "> 0 or none",
    )
    value_epochs: int = knob(4, "passes of value regression per update", _positive, ">= 1")
    value_mini_batches: int = knob(4, "optimizer steps per value pass", _positive, ">= 1")
    huber_delta: float = knob(10.0, "where the value loss turns linear", _positive, "> 0")
    value_clip: float | None = knob(
        None,
        "a value moves at most so far from where it was before the update, on the scale of the head, unless its loss "
        "is larger for it (PPO); none: it moves freely",
        lambda value: value is None or value > 0,
        "> 0 or none",
    )
    value_width: int = knob(256, "hidden units of the value head", lambda value: value >= 1, ">= 1")
    value_norm: bool = knob(
        False, "the critic learns returns less their running mean over their running spread (MAPPO)"
    )
    value_warmup: int = knob(0, "first updates that train the critic only", _not_negative, ">= 0")
    agent_interval: int = knob(
        0,
        "0: every update trains all agents, one by one; n: each agent is trained for n updates in turn",
        _not_negative,
        ">= 0",
    )
    agent_order: Order = knob(
        "fixed",
        "order of the agents: fixed, random, reverse, or in turns the one with the largest mean |advantage| and any "
        "(semi-greedy, A2PO)",
    )
    compounding: Compounding = knob(
        "none",
        "weight each agent's advantages by the ratios of the agents updated before it: their product (happo), each "
        "within the clip bounds (bounded), or as A2PO does",
    )
    clip_start: float = knob(
        1.0,
        "c: the k-th of n agents that an update trains is clipped at c + (1 - c) k / n of the bounds; 1: all alike",
        _share,
        "in [0, 1]",
    )
    dynamic_sampling: int = knob(
        0,
        "0: train on the episodes as drawn; n: draw again, at most n extra rounds, for groups whose outcomes all "
        "agree; those that still do are left out",
        _not_negative,
        ">= 0",
    )
    branches: int = knob(
        0,
        "0: train whole episodes; n: replay an episode up to a turn and train n alternatives of that turn",
        lambda value: value == 0 or value >= 2,
        "0 or >= 2",
    )

    def __post_init__(self) -> None:
        check_knobs(self)
        for found, reason in self._contradictions():
            if found:
                raise SettingsError(reason)

    @property
    def critic(self) -> bool:
        """True if a value head is trained."""
        return self.baseline == "critic"

    @property
    def costs_kl(self) -> bool:
        """True if the KL to the base is a cost of each token in the reward."""
        return self.kl_weight > 0 and self.kl_place == "reward"

    @property
    def compares_draws(self) -> bool:
        """True if advantages compare episodes of one task draw, which then needs at least two of them."""
        return self.branches == 0 and (self.baseline in ("group", "leave_one_out") or self.centring == "group")

    def _contradictions(self) -> list[tuple[bool, str]]:
        """Return what can not be together, with the reason."""
        free = not self.critic
        in_turns = self.agent_interval > 0
        grouped = self.baseline in ("group", "leave_one_out")
        without = f"baseline = {self.baseline!r} trains no critic:"
        return [
            (
                self.compounding != "none" and in_turns,
                "compounding needs every update to train all agents: set agent_interval to 0 or compounding to none",
            ),
            (
                in_turns and (self.agent_order == "semi-greedy" or self.clip_start < 1),
                "agent_order = 'semi-greedy' and clip_start < 1 are about the agents of one update: set agent_interval "
                "to 0",
            ),
            (
                self.level == "token" and self.normalisation != "sum",
                f"normalisation = {self.normalisation!r} has no meaning at token level, wanted 'sum'",
            ),
            (
                self.level == "action" and self.averaging != "decision",
                f"averaging = {self.averaging!r} weighs tokens, and at action level there is one decision per action: "
                "wanted 'decision'",
            ),
            (free and self.credit != "chain", f"{without} credit = {self.credit!r} has nothing to run along"),
            (free and self.value_warmup > 0, f"{without} wanted value_warmup = 0, found {self.value_warmup}"),
            (free and self.value_trace_decay is not None, f"{without} wanted value_trace_decay = none"),
            (free and self.value_norm, f"{without} wanted value_norm = False"),
            (free and self.value_clip is not None, f"{without} wanted value_clip = none"),
            (
                self.compare == "turn" and not grouped,
                f"compare = 'turn' is about the groups of turns: wanted baseline = 'group' or 'leave_one_out', found "
                f"{self.baseline!r}",
            ),
            (
                self.dynamic_sampling > 0 and not (grouped or self.centring == "group"),
                "dynamic_sampling draws again for groups whose outcomes all agree: wanted baseline = 'group' or "
                "'leave_one_out', or centring = 'group'",
            ),
            (
                self.length_adaptive > 0 and (free or self.level != "token" or self.credit == "round"),
                "length_adaptive is the lambda between tokens: wanted a critic of every token "
                "(level = 'token', baseline = 'critic', credit = 'chain' or 'own')",
            ),
            (
                (self.token_discount, self.token_trace_decay) != (1, 1)
                and (free or self.level != "token" or self.credit == "round"),
                f"token_discount = {self.token_discount}, token_trace_decay = {self.token_trace_decay}: they apply "
                "from the value of one token of an action to that of the next, and here tokens have no values: wanted "
                "1 for both, or level = 'token' with baseline = 'critic' and credit = 'chain' or 'own'",
            ),
            (
                self.length_adaptive > 0 and self.token_trace_decay != 1,
                f"length_adaptive = {self.length_adaptive} and token_trace_decay = {self.token_trace_decay} are both "
                "the lambda between tokens: wanted length_adaptive = 0 or token_trace_decay = 1",
            ),
            (
                self.scaling == "batch-nonzero" and self.centring != "none",
                "scaling = 'batch-nonzero' subtracts the mean of the batch itself, after which nothing would be zero: "
                f"wanted centring = 'none', found {self.centring!r}",
            ),
            (
                self.scaling == "group" and not grouped,
                "scaling = 'group' divides by the spread of the returns that are compared: wanted baseline = 'group' "
                "or 'leave_one_out'",
            ),
            (
                self.branches > 0 and not (grouped and self.compare == "turn"),
                f"branches = {self.branches} are alternatives of one turn: wanted compare = 'turn' and baseline = "
                "'group' or 'leave_one_out'",
            ),
            (
                self.branches > 0 and self.compounding != "none",
                "compounding needs the turns of all agents of a round, branches train one: wanted one of the two",
            ),
            (
                self.compounding == "a2po" and self.credit != "round",
                f"compounding = 'a2po' corrects the joint advantage: wanted credit = 'round', found {self.credit!r}",
            ),
        ]
