"""Solutions with the verdict that their source states, to compare a judge with external verdicts.

| source | columns | states |
|---|---|---|
| embedded sets | the attachment `solutions` | a verdict of `marft_envs.sandbox.Verdict` |
| DeepMind code_contests | solutions, incorrect_solutions | right; wrong in some way |
| APPS, TACO | solutions | right |
| a file of solutions | problem, language, verdict, source | a verdict, ours or Codeforces', or `WRONG` |
| open-r1/codeforces-submissions | problem_id, programmingLanguage, verdict, source | a verdict of Codeforces |

Python 2, PyPy, Java and others are left out: another interpreter has other run times.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import envs_data
from envs_data import DataError
from marft_envs.data.column_formats import Fields
from marft_envs.data.files import Row, read_file
from marft_envs.data.sources import Hub, installed_hub
from marft_envs.sandbox.judge_data import Verdict
from marft_envs.tasks.code.loading import read_problems
from marft_envs.tasks.code.problem import Problem

WRONG = "WRONG"  # some verdict other than OK
_OF_CODEFORCES = {
    "OK": "OK",
    "WRONG_ANSWER": "WA",
    "PRESENTATION_ERROR": "WA",
    "TIME_LIMIT_EXCEEDED": "TLE",
    "IDLENESS_LIMIT_EXCEEDED": "ILE",
    "MEMORY_LIMIT_EXCEEDED": "MLE",
    "RUNTIME_ERROR": "RE",
    "COMPILATION_ERROR": "CE",
    "CHALLENGED": WRONG,
}
_STATED = {WRONG: WRONG, **{each.value: each.value for each in Verdict}, **_OF_CODEFORCES}
_OF_CODE_CONTESTS = {1: "python2", 2: "c++17", 3: "python", 4: "java"}


class Solution(NamedTuple):
    """A program and its stated verdict.

    Attributes:
        problem: Id of its problem.
        language: Language as `Submission` takes it.
        stated: A verdict, or `WRONG`.
        source: Source text of the program.
        where: Its place, for messages.
    """

    problem: str
    language: str
    stated: str
    source: str
    where: str

    def agrees(self, verdict: Verdict) -> bool:
        """Return True if a verdict is the stated one."""
        if self.stated == WRONG:
            return verdict not in (Verdict.OK, Verdict.INTERNAL)
        return verdict == self.stated


class Solved(NamedTuple):
    """Problems with the solutions that can be judged here.

    Attributes:
        cases: Pairs of a problem and a solution of it.
        left_out: Solutions that cannot be compared, by the reason.
    """

    cases: list[tuple[Problem, Solution]]
    left_out: dict[str, int]


def load_solutions(
    data: str = "embedded", split: str = "train", file: Path | None = None, *, hub: Callable[[], Hub] = installed_hub
) -> Solved:
    """Return the solutions of one split of a data set.

    Args:
        data: Source as `load_problems` takes it.
        split: Name of the split.
        file: Solutions of the problems of `data`, which replace the solutions of the data set.
        hub: As in `load_problems`.

    Raises:
        DataError: `data` or `file` is broken, or there is no solution.
    """
    problems = {problem.id: (problem, row) for problem, row in read_problems("codeforces", data, split, hub)}
    found: list[Solution] = []
    if file is not None:
        found += _of_file(file)
    elif data.startswith("embedded"):
        for each in envs_data.attachment("codeforces", "solutions"):
            if each["problem"] in problems:  # the attachment holds those of all splits
                where = f"{data}: {each['idea']}"
                found.append(Solution(each["problem"], each["language"], each["verdict"], each["source"], where))
    else:
        for problem, row in problems.values():
            fields = Fields(row.columns)
            for column, stated in (("solutions", "OK"), ("incorrect_solutions", WRONG)):
                for language, source in _programs(row, column, fields.get(column)):
                    found.append(Solution(problem.id, language, stated, source, f"{row.where}, {column}"))
    if not found:
        raise DataError(
            str(file or data), "no solutions", "columns with solutions, or a file of them", "give --solutions FILE"
        )
    cases: list[tuple[Problem, Solution]] = []
    left_out: dict[str, int] = {}
    for solution in found:
        if solution.problem not in problems:
            reason = "its problem is not in the data"
        elif not (reason := _unfit(problems[solution.problem][0], solution)):
            cases.append((problems[solution.problem][0], solution))
            continue
        left_out[reason] = left_out.get(reason, 0) + 1
    return Solved(cases, left_out)


def _unfit(problem: Problem, solution: Solution) -> str:
    """Return the reason why a solution cannot be compared; empty if it can."""
    if solution.language not in ("python", "c++17", "c++20"):
        return f"in {solution.language}"
    if problem.driver and solution.language != "python":
        return f"a function in {solution.language}"
    return "several answers are right, and there is no checker" if problem.meta.get("several_answers") else ""


def _programs(row: Row, column: str, value: Any) -> list[tuple[str, str]]:
    """Return languages and programs: two lists (code_contests), or a list of Python programs, perhaps as JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else []
        except ValueError as error:
            raise DataError(row.where, f"{column} that is no JSON ({error})", "JSON", "fix the row") from error
    if isinstance(value, dict):
        languages = [_OF_CODE_CONTESTS.get(each, "another language") for each in value.get("language") or []]
        return list(zip(languages, value.get("solution") or [], strict=True))
    return [("python", source) for source in value or []]


def _of_file(file: Path) -> Iterator[Solution]:
    for row in read_file(file):
        fields = Fields(row.columns)
        problem = fields.text("problem") or fields.text("problem_id")
        language = fields.text("language") or fields.text("programminglanguage")
        verdict, source = fields.text("verdict"), fields.text("source")
        if not (problem and language and source):
            raise DataError(row.where, "no problem, language or source", "a solution", "complete or remove the row")
        if verdict not in _STATED:
            raise DataError(row.where, f"verdict {verdict!r}", f"one of {', '.join(_STATED)}", "fix or remove the row")
        yield Solution(problem, _language(language), _STATED[verdict], source, row.where)


def _language(name: str) -> str:
    """Return our name of a language of Codeforces."""
    if found := re.search(r"(?i)c\+\+(?:\D*)(\d\d)?", name):
        return "c++20" if found[1] in ("20", "23") else "c++17"
    return "python" if name.lower() in ("python", "python 3", "py", "python3") else name
