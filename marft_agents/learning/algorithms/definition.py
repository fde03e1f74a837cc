"""Definition of an algorithm: its parts, and its defaults for the settings that the parts leave open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

from marft_agents.learning.parts import AllAgents, CreditSource, Critic, Decision, KlPenalty, Order


class Defaults(TypedDict, total=False):
    """Settings for which algorithms have defaults of their own; fields of `LearnerSettings`."""

    discount: float
    token_discount: float
    value_trace_decay: float
    value_warmup: int
    value_norm: bool
    length_adaptive: float
    clip_low: float
    clip_high: float
    clip_start: float
    positive_nll: float
    overlong_share: float
    dynamic_sampling: int
    branches: int
    agent_order: Order


@dataclass(frozen=True)
class Algorithm:
    """An algorithm: the parts that define it, and its defaults.

    Attributes:
        description: One line for the help text.
        source: Paper that introduced it, as an arXiv id.
        credit: Source of the advantages; a field that is None is the user's choice.
        decision: Unit of an advantage; None: the user's choice.
        schedule: Schedule of the agents; None: the user's choice.
        kl: Default KL penalty, which the user can change; None: that of `LearnerSettings`.
        defaults: Further default settings of the algorithm; the user can change them.
        single_agent: True if it trains teams of one agent only.
        min_branches: Fewest alternatives of a turn that it can compare; 0 if it needs no branches.
    """

    description: str
    source: str
    credit: CreditSource
    decision: Decision | None = None
    schedule: AllAgents | None = None
    kl: KlPenalty | None = None
    defaults: Defaults = field(default_factory=Defaults)
    single_agent: bool = False
    min_branches: int = 0

    @property
    def critic(self) -> bool:
        """True if the algorithm trains a critic."""
        return isinstance(self.credit, Critic)

    @property
    def suggests(self) -> Mapping[str, Any]:
        """Settings of `LearnerSettings` that the algorithm starts from; the user can change them."""
        return {**(self.kl.fixes if self.kl else {}), **self.defaults}

    @property
    def fixes(self) -> Mapping[str, Any]:
        """Settings of `LearnerSettings` that define the algorithm; the user cannot change them."""
        fixed: dict[str, Any] = {}
        for part in (self.decision, self.credit, self.schedule):
            fixed |= {} if part is None else part.fixes
        return fixed
