"""The frame of a MATH subject: templates with levels, gathered into groups with quotas."""

import random
from collections.abc import Callable
from typing import NamedTuple

from envs_data.build.draft import Draft, Group, Template

LEVELS = (1, 2, 3, 4, 5)
TRAIN_PER_LEVEL = 16
TEST_PER_LEVEL = 6


class Problem(NamedTuple):
    r"""What a template gives.

    Attributes:
        parameters: The numbers that decide the answer.
        problem: LaTeX text.
        solution: LaTeX text that derives the answer and holds exactly one \boxed.
    """

    parameters: tuple[object, ...]
    problem: str
    solution: str


class Subject:
    """Collects the templates of a subject; `@subject(level)` above a function adds it.

    Args:
        name: Subject as MATH writes it, e.g. "Number Theory".
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._templates: dict[int, list[Template]] = {level: [] for level in LEVELS}

    def __call__(
        self, level: int
    ) -> Callable[[Callable[[random.Random], Problem]], Callable[[random.Random], Problem]]:
        """Return the decorator that adds a template of this level."""

        def add(function: Callable[[random.Random], Problem]) -> Callable[[random.Random], Problem]:
            def template(rng: random.Random) -> Draft:
                return self._draft(level, function(rng))

            template.__name__ = function.__name__.lstrip("_")
            self._templates[level].append(template)
            return function

        return add

    def groups(self) -> tuple[Group, ...]:
        """Return one group a level."""
        return tuple(
            Group(f"{self.name}/{level}", tuple(self._templates[level]), TRAIN_PER_LEVEL, TEST_PER_LEVEL)
            for level in LEVELS
        )

    def _draft(self, level: int, made: Problem) -> Draft:
        row = {
            "problem": made.problem,
            "level": f"Level {level}",
            "type": self.name,
            "solution": made.solution,
        }
        return Draft(made.parameters, row)
