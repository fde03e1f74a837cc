"""Length of a training run, rollouts per update, and checkpoints to keep. Needs no torch."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from marft_agents.rollouts.rollout import MAX_TURNS
from marft_agents.setting_fields import check_knobs, knob

UPDATES = 100  # of a run without a budget of tokens, where their number is not given


@dataclass(frozen=True)
class TrainingSchedule:
    """Length of a run, rollouts per update, and checkpoints to keep."""

    updates: int | None = knob(
        None,
        f"updates of the whole run; none: {UPDATES}, or with budget_tokens as many as it takes",
        lambda v: v is None or v >= 1,
        ">= 1 or none",
    )
    budget_tokens: int = knob(
        0,
        "end the run after the update in which the tokens generated for training reach this number; updates and "
        "epochs still limit it where they are given; 0: no budget",
        lambda v: v >= 0,
        ">= 0",
    )
    epochs: int = knob(
        0,
        "passes over the tasks, each drawn once per pass in a seeded order; updates then follow. 0: tasks are drawn "
        "with replacement",
        lambda v: v >= 0,
        ">= 0",
    )
    groups: int = knob(8, "task draws per update", lambda v: v >= 1, ">= 1")
    group_size: int = knob(4, "episodes per task draw", lambda v: v >= 1, ">= 1")
    num_envs: int = knob(64, "games in flight (memory and speed, not results)", lambda v: v >= 1, ">= 1")
    max_turns: int = knob(
        MAX_TURNS,
        "an episode that is not over after so many turns has failed; 0: no limit",
        lambda v: v >= 0,
        ">= 0",
    )
    branched_turns: int = knob(
        0, "with branches: branch so many turns of an episode, drawn at random; 0: all", lambda v: v >= 0, ">= 0"
    )
    seed: int = knob(0, "of everything random in the run", lambda v: v >= 0, ">= 0")
    keep: int = knob(2, "newest checkpoints to keep; one is written after every update", lambda v: v >= 1, ">= 1")
    keep_every: int = knob(0, "also keep every n-th checkpoint; 0 keeps none extra", lambda v: v >= 0, ">= 0")
    record_tokens: bool = knob(
        False, "record in episodes.jsonl what each agent saw, and the log-prob and advantage of each token"
    )

    def __post_init__(self) -> None:
        check_knobs(self)

    @property
    def max_updates(self) -> int:
        """Largest number of updates of the run, which a budget may end earlier.

        With a budget alone it is the number of tokens, since every update generates at least one.
        """
        return self.updates or self.budget_tokens or UPDATES

    def progress(self, updates: int, tokens: int | None) -> float:
        """Return the share of the run that is done after so many updates and generated tokens; >= 1 ends it.

        Args:
            updates: Number of updates done.
            tokens: Tokens generated for training; None: not counted, which is allowed without a budget.
        """
        spent = 0.0 if tokens is None or not self.budget_tokens else tokens / self.budget_tokens
        return max(updates / self.max_updates, spent)

    def for_tasks(self, count: int) -> TrainingSchedule:
        """Return the schedule with the number of updates for its epochs over `count` tasks; itself without epochs.

        Every update is full: where the division leaves a remainder, the last prompt groups are the first tasks of a
        further epoch.
        """
        return dataclasses.replace(self, updates=-(-self.epochs * count // self.groups)) if self.epochs else self
