"""Settings of the learner: one knob, one place, each with its help and its check.

`knob` attaches the help to a dataclass field; the command line is generated from these fields, so a knob is
named once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from marft_agents.objectives import Normalisation

Level = Literal["action", "token"]
Order = Literal["fixed", "random", "reverse"]


class SettingsError(ValueError):
    """A setting out of its range, or settings that contradict each other; names the knob and what is wanted."""


def knob(default: Any, text: str, check: Callable[[Any], bool] | None = None, wanted: str = "") -> Any:
    """Declare a dataclass field with its help and range.

    Args:
        default: its default value.
        text: what it does, with its unit.
        check: returns True for a valid value; None accepts all.
        wanted: the range in words, for the error.
    """
    return dataclasses.field(default=default, metadata={"help": text, "check": check, "wanted": wanted})


def check_knobs(settings: Any) -> None:
    """Raise SettingsError for the first field whose value is outside its declared range."""
    for field in dataclasses.fields(settings):
        value, check = getattr(settings, field.name), field.metadata.get("check")
        if check is not None and not check(value):
            raise SettingsError(f"{field.name} = {value!r}, wanted {field.metadata['wanted']}")


def _positive(value: float) -> bool:
    return value > 0


def _not_negative(value: float) -> bool:
    return value >= 0


def _share(value: float) -> bool:
    return 0 <= value <= 1


@dataclass(frozen=True)
class LearnerSettings:
    """Everything the update needs to know; defaults are the paper's (MARFT table 3) unless noted."""

    level: Level = knob("action", "what a decision is: a whole action (MARFT-A) or each token (MARFT-T)")
    normalisation: Normalisation = knob(
        "sum", "how an action's log-prob is normalised at action level: sum, token or word"
    )
    policy_lr: float = knob(1e-6, "Adam step size of the adapters", _positive, "> 0")
    critic_lr: float = knob(1e-5, "Adam step size of the value head", _positive, "> 0")
    lr_schedule: Literal["constant", "cosine"] = knob("constant", "constant, or cosine decay to zero over the run")
    adam_epsilon: float = knob(1e-5, "epsilon of Adam", _positive, "> 0")
    max_grad_norm: float = knob(0.5, "gradients are scaled down to this norm", _positive, "> 0")
    discount: float = knob(0.99, "gamma between turns along the chain", _share, "in [0, 1]")
    trace_decay: float = knob(0.95, "lambda of GAE between turns along the chain", _share, "in [0, 1]")
    clip_low: float = knob(0.2, "epsilon of the PPO clip below 1", _share, "in [0, 1]")
    clip_high: float = knob(0.2, "epsilon of the PPO clip above 1", _positive, "> 0")
    entropy_bonus: float = knob(0.0, "weight of the mean token entropy", _not_negative, ">= 0")
    ppo_epochs: int = knob(1, "passes over a batch", _positive, ">= 1")
    mini_batches: int = knob(1, "optimizer steps per pass", _positive, ">= 1")
    micro_batch: int = knob(16, "sequences per forward pass (memory, not results)", _positive, ">= 1")
    kl_stop: float | None = knob(
        None,
        "stop an agent's passes when its KL to the sampling policy exceeds this (nats per decision)",
        lambda value: value is None or value > 0,
        "> 0 or none",
    )
    centring: Literal["batch", "group"] = knob(
        "batch",
        "advantages are centred per agent over the batch, or per agent over the episodes of one task draw",
    )
    value_epochs: int = knob(4, "passes of value regression per update", _positive, ">= 1")
    value_mini_batches: int = knob(4, "optimizer steps per value pass", _positive, ">= 1")
    huber_delta: float = knob(10.0, "where the value loss turns linear", _positive, "> 0")
    value_warmup: int = knob(0, "first updates that train the critic only", _not_negative, ">= 0")
    agent_interval: int = knob(
        0,
        "0: every update trains all agents, one by one; n: each agent is trained for n updates in turn",
        _not_negative,
        ">= 0",
    )
    agent_order: Order = knob("fixed", "order of the agents: fixed, random or reverse")
    compounding: bool = knob(
        False, "weight each agent's advantages by the ratios of the agents updated before it (HAPPO/A2PO)"
    )

    def __post_init__(self) -> None:
        check_knobs(self)
        if self.compounding and self.agent_interval:
            raise SettingsError(
                "compounding needs every update to train all agents: set agent_interval to 0 or drop compounding"
            )
        if self.level == "token" and self.normalisation != "sum":
            raise SettingsError(f"normalisation = {self.normalisation!r} has no meaning at token level, wanted 'sum'")
