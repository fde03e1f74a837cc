"""`codeforces`: our own competitive-programming problems with tests, checkers and judged solutions.

Columns are those of open-r1/codeforces. The Python reference solution computes the outputs; the examples of the
statement must agree with it. In the order of rating and name, every third problem is a test problem.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from random import Random
from typing import Any

from envs_data.build.codeforces.input_validation import Reader
from envs_data.build.codeforces.problem_file import Problem, read, slugs
from envs_data.build.codeforces.reference import answer
from envs_data.build.draft import Attachment, Draft, Group, SetSpec

SMALL_TESTS = 4
"""How many tests of a problem are small random ones."""


@cache
def ranked() -> tuple[Problem, ...]:
    """Return all problems, sorted by rating, then by name."""
    return tuple(sorted(map(read, slugs()), key=lambda problem: (problem.rating, problem.slug)))


def problem_id(problem: Problem) -> str:
    """Return the id "contest/index", as in the original data set."""
    return f"{problem.level}/{problem.slug}"


def small(problem: Problem) -> Callable[[Random], str]:
    """Return the generator of small inputs of a problem."""
    found: Callable[[Random], str] = _generator(problem).small
    return found


def inputs(problem: Problem, rng: Random) -> list[str]:
    """Return the validated distinct test inputs of a problem, the examples first.

    Raises:
        ValueError: An input violates the constraints of the statement.
    """
    generator = _generator(problem)
    drawn = [*(text for text, _ in problem.examples), *generator.tests(rng)]
    drawn += [generator.small(rng) for _ in range(SMALL_TESTS)]
    for text in drawn:
        reader = Reader(text)
        generator.validate(reader)
        reader.end()
    return list(dict.fromkeys(drawn))


def row(problem: Problem, rng: Random) -> dict[str, Any]:
    """Return a problem as a row of the data set.

    Raises:
        ValueError: The reference solution disagrees with an example of the statement.
    """
    tests = [{"input": text, "output": answer(problem.reference, text)} for text in inputs(problem, rng)]
    examples = [{"input": given, "output": shown} for given, shown in problem.examples]
    if tests[: len(examples)] != examples:
        raise ValueError(f"{problem.slug}: found {tests[: len(examples)]} by the reference, wanted {examples}")
    return {
        "id": problem_id(problem),
        "contest_id": problem.level,
        "index": problem.slug,
        "title": problem.title,
        "description": problem.description,
        "input_format": problem.input_format,
        "output_format": problem.output_format,
        "note": problem.note,
        "time_limit": problem.time_limit,
        "memory_limit": problem.memory_limit,
        "input_mode": "stdio",
        "examples": examples,
        "official_tests": tests,
        "official_tests_complete": True,
        "generated_checker": problem.generated_checker,
        "checker": None if problem.generated_checker else problem.checker,
        "rating": problem.rating,
        "tags": list(problem.tags),
    }


def solutions() -> list[dict[str, str]]:
    """Return every solution of every problem with its expected verdict."""
    return [
        {
            "problem": problem_id(problem),
            "language": each.language,
            "verdict": each.verdict,
            "idea": each.idea,
            "source": each.source,
        }
        for problem in ranked()
        for each in problem.solutions
    ]


def _generator(problem: Problem) -> Any:
    return import_module(f"{__name__}.problems.{problem.slug}")


@dataclass(frozen=True)
class _Template:
    """Template that returns the one draft of a problem."""

    problem: Problem

    def __str__(self) -> str:
        return self.problem.slug

    def __call__(self, rng: Random) -> Draft:
        return Draft((self.problem.slug,), row(self.problem, rng))


def _groups() -> tuple[Group, ...]:
    return tuple(
        Group(problem.level, (_Template(problem),), train=int(place % 3 != 0), test=int(place % 3 == 0))
        for place, problem in enumerate(ranked(), start=1)
    )


SPEC = SetSpec(
    name="codeforces",
    description="Competitive-programming problems rated 800 to 2000 in the columns of open-r1/codeforces, each with "
    "all its tests, a checker where several answers are right, and (in solutions.jsonl) right, wrong and slow "
    "programs with the verdicts they must get. Classic ideas, easier than the original.",
    groups=_groups(),
    text_column="description",
    columns=(
        "id",
        "contest_id",
        "index",
        "title",
        "description",
        "input_format",
        "output_format",
        "note",
        "time_limit",
        "memory_limit",
        "input_mode",
        "examples",
        "official_tests",
        "official_tests_complete",
        "generated_checker",
        "checker",
        "rating",
        "tags",
    ),
    attachments=(Attachment("solutions", ("problem", "language", "verdict", "idea", "source"), solutions),),
)
