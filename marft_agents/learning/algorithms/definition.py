"""Definition of an algorithm: the settings that define it, and its defaults for others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from marft_agents.learning.settings import DEFAULTS, LearnerSettings

# Settings that go together in several definitions.
WHOLE_ACTIONS = {"level": "action", "averaging": "decision"}
PROMPT_GROUPS = {"compare": "draw", "branches": 0, "centring": "none"}
TURN_GROUPS = {"compare": "turn", "centring": "none"}


@dataclass(frozen=True)
class Algorithm:
    """An algorithm: the settings of `LearnerSettings` that define it, and its defaults.

    Attributes:
        description: One line for the help text.
        source: Paper that introduced it, as an arXiv id.
        fixes: Settings that define the algorithm; the user cannot change them.
        defaults: Settings that the algorithm starts from; the user can change them.
        single_agent: True if it trains teams of one agent only.
        min_branches: Fewest alternatives of a turn that it can compare; 0 if it needs no branches.

    Raises:
        SettingsError: The settings contradict each other, or a value is out of range.
        TypeError: A name is none of `LearnerSettings`.
    """

    description: str
    source: str
    fixes: Mapping[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    single_agent: bool = False
    min_branches: int = 0

    def __post_init__(self) -> None:
        LearnerSettings(**{**self.defaults, **self.fixes})

    @property
    def critic(self) -> bool:
        """True if the algorithm trains a critic."""
        return bool({**DEFAULTS, **self.defaults, **self.fixes}["baseline"] == "critic")
