"""Registration of the templates of a MATH subject by level, and their groups with quotas."""

import random
from collections.abc import Callable
from typing import NamedTuple

from envs_data.build.draft import Draft, Group, Template

LEVELS = (1, 2, 3, 4, 5)
TRAIN_PER_LEVEL = 16
TEST_PER_LEVEL = 6


class Problem(NamedTuple):
    r"""Problem returned by a template.

    Attributes:
        parameters: Numbers that determine the answer.
        problem: LaTeX text of the problem.
        solution: LaTeX text that derives the answer and holds exactly one \boxed.
    """

    parameters: tuple[object, ...]
    problem: str
    solution: str


class Subject:
    """Collection of the templates of a subject; the decorator `@subject(level)` adds one.

    Args:
        name: Name of the subject in MATH, e.g. "Number Theory".
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._templates: dict[int, list[Template]] = {level: [] for level in LEVELS}

    def __call__(
        self, level: int
    ) -> Callable[[Callable[[random.Random], Problem]], Callable[[random.Random], Problem]]:
        """Return a decorator that adds a template of this level."""

        def add(function: Callable[[random.Random], Problem]) -> Callable[[random.Random], Problem]:
            def template(rng: random.Random) -> Draft:
                return self._draft(level, function(rng))

            template.__name__ = function.__name__.lstrip("_")
            self._templates[level].append(template)
            return function

        return add

    def groups(self) -> tuple[Group, ...]:
        """Return one group per level."""
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
