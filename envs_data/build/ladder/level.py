"""One level of a ladder, and the specification of a ladder's data set."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from envs_data.build.draft import Attachment, Draft, Group, SetSpec

TRAIN, TEST, BENCH = 300, 100, 200  # rows of a level


@dataclass(frozen=True)
class Level:
    """A level as a template: calling it draws a problem.

    Attributes:
        number: Number of the level, from 1.
        meaning: Definition in one line.
        make: Draws a problem, without its level.
    """

    number: int
    meaning: str
    make: Callable[[random.Random], Draft]

    @property
    def __name__(self) -> str:
        return f"level_{self.number}"

    def __call__(self, rng: random.Random) -> Draft:
        """Draw a problem of this level."""
        draft = self.make(rng)
        return Draft(draft.parameters, {**draft.row, "level": self.number})


def ladder(
    family: str,
    levels: Sequence[tuple[str, Callable[[random.Random], Draft]]],
    *,
    text_column: str,
    columns: tuple[str, ...],
    attachments: tuple[Attachment, ...] = (),
) -> SetSpec:
    """Return the specification of a ladder.

    Args:
        family: Task of the ladder, such as "math".
        levels: Definition and template of each level, the easiest first.
        text_column: Column that holds the problem's text.
        columns: All columns beside `id` and `level`.
        attachments: Further files of the set.
    """
    steps = [Level(number, *level) for number, level in enumerate(levels, start=1)]
    return SetSpec(
        name=f"ladder/{family}",
        description=f"Ladder of {family} for very small models, six levels of generated problems.",
        groups=tuple(Group(f"level-{step.number}", (step,), TRAIN, TEST, bench=BENCH) for step in steps),
        text_column=text_column,
        columns=("id", *columns, "level"),
        number="id",
        attachments=attachments,
        levels=tuple(step.meaning for step in steps),
    )
