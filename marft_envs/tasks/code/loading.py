"""Load programming problems: the embedded set, files and hub data sets in the formats they are published in.

    >>> problems = load_problems("codeforces", split="test")
    >>> len(problems[0].all_tests) > 5
    True

A row that is broken is an error with its place. A row may be sound but impossible to judge here (interactive, files
instead of standard input, no tests). Such rows are left out, and one warning gives their number and the reasons.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable

from envs_data import DataError
from marft_envs.data.files import Row
from marft_envs.data.sources import Hub, installed_hub, open_source
from marft_envs.tasks.code.formats import read_problem
from marft_envs.tasks.code.limits import UnsuitedError
from marft_envs.tasks.code.problem import Problem


def load_problems(
    kind: str = "codeforces",
    data: str | os.PathLike[str] = "embedded",
    split: str = "train",
    *,
    hub: Callable[[], Hub] = installed_hub,
) -> list[Problem]:
    """Return the problems of one split.

    Args:
        kind: Name of the embedded set.
        data: "embedded", "embedded:NAME", a path to .json, .jsonl, .csv or .parquet, a folder with one such file a
            split, or "hub:OWNER/NAME[:CONFIG][@REVISION]".
        split: Name of the split; a single file is one split of any name.
        hub: Returns the module `datasets`, or an object with its two functions.

    Returns:
        Problems in the order of the source.

    Raises:
        DataError: A broken row, two rows of one id, or no row that can be judged; with place, what was found, what
            was wanted and what to do.
    """
    return [problem for problem, _ in read_problems(kind, data, split, hub)]


def read_problems(
    kind: str, data: str | os.PathLike[str], split: str, hub: Callable[[], Hub]
) -> list[tuple[Problem, Row]]:
    """Return the problems of one split with their rows; see `load_problems`."""
    data = os.fspath(data) if isinstance(data, os.PathLike) else data
    if not isinstance(data, str) or not data:
        raise DataError("data", repr(data), '"embedded", "hub:OWNER/NAME" or a path', "name one of these")
    source = open_source(kind, data, split, hub)
    problems: list[tuple[Problem, Row]] = []
    places: dict[str, str] = {}
    unsuited: list[UnsuitedError] = []
    for number, row in enumerate(source.rows):
        try:
            problem = read_problem(row, f"{source.name}-{split}-{number:05d}")
        except UnsuitedError as error:
            unsuited.append(error)
            continue
        if problem.id in places:
            raise DataError(row.where, f"id {problem.id!r} as in {places[problem.id]}", "unique ids", "rename one")
        places[problem.id] = row.where
        problems.append((problem, row))
    if not problems:
        raise unsuited[0]
    _warn(data, [problem for problem, _ in problems], unsuited)
    return problems


def _warn(data: str, problems: list[Problem], unsuited: list[UnsuitedError]) -> None:
    if unsuited:
        why = ", ".join(f"{count} {found}" for found, count in Counter(error.found for error in unsuited).items())
        first = f"the first: {unsuited[0]}"
        warnings.warn(f"{data}: {len(unsuited)} problems are left out ({why}); {first}", stacklevel=4)
    if several := [problem.id for problem in problems if problem.meta.get("several_answers")]:
        warnings.warn(
            f"{data}: {len(several)} problems ({', '.join(several[:3])}, ...) take several answers but bring no "
            "checker program: only the given answer passes; add one as column generated_checker, or leave those out "
            "whose meta has several_answers",
            stacklevel=4,
        )
