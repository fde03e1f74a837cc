"""Events of a training, for the callable that shows its progress; `print` is one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from marft_agents.monitoring.alarms import Alarm


class Started(NamedTuple):
    """The first update is about to be played.

    Attributes:
        updates: Number of updates of the run; None: as many as the budget takes.
        policies: Names of the trained policies.
        budget_tokens: Generated tokens that end the run; 0: no budget.
        max_new_tokens: Token limit of an action.
    """

    updates: int | None
    policies: tuple[str, ...]
    budget_tokens: int
    max_new_tokens: int

    def __str__(self) -> str:
        length = f"{self.budget_tokens} tokens" if self.updates is None else f"{self.updates} updates"
        return f"training of {', '.join(self.policies)} for {length}"


class Updated(NamedTuple):
    """An update is done.

    Attributes:
        update: Its index, from 0.
        metrics: Its metrics by name, as in `metrics.jsonl`.
    """

    update: int
    metrics: Mapping[str, float]

    def __str__(self) -> str:
        success = self.metrics.get("team/success")
        return f"update {self.update + 1}" + ("" if success is None else f": success {success:.3f}")


class Noted(NamedTuple):
    """Something that the user should know, and that does not stop the run."""

    text: str

    def __str__(self) -> str:
        return self.text


class Ended(NamedTuple):
    """The last update is done, or an error ends the run."""

    def __str__(self) -> str:
        return "end of the training"


Event = Started | Updated | Alarm | Noted | Ended
Progress = Callable[[Event], None]


def silent(event: Event) -> None:
    """Show nothing."""


def loading(models: Iterable[str]) -> str:
    """Return a line that names what is loaded next and takes seconds; empty where that is nothing.

    Args:
        models: Names of models, see `marft_agents.policies.partners`; remote ones and the tiny random ones are not
            named.
    """
    local = [name.removeprefix("frozen:") for name in models if not name.startswith(("endpoint:", "a2a:"))]
    # Torch alone takes seconds, unless something before has imported it.
    slow = [] if "torch" in sys.modules else ["torch"]
    slow += dict.fromkeys(name for name in local if not name.startswith("tiny"))
    return f"loading {' and '.join(slow)} ..." if slow else ""
