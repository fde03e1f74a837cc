r"""Gold answers: read from a row, repaired where MATH's own solutions mislead, checked against the grader.

A gold is one or more answers and a mode that says how they count. Measured on MATH: the last \boxed is wrong or
incomplete in 23 of 12,500 rows and the first in 33. The modes are:

- single: one answer
- any: each is right alone
- all: all are wanted, in any order
- ordered: all are wanted, in this order
"""

import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple, cast

from envs_data import DataError
from marft_envs.grading import boxed_answers, grade_math

Mode = Literal["single", "any", "all", "ordered"]
MODES: tuple[Mode, ...] = ("single", "any", "all", "ordered")


class Gold(NamedTuple):
    """The right answer of a task.

    Attributes:
        answers: One string if the mode is "single", else at least two.
        mode: Rule by which several answers count.
    """

    answers: tuple[str, ...]
    mode: Mode = "single"

    @property
    def text(self) -> str:
        """The form kept in `Task.answer`: the answer itself, or a JSON list of the answers."""
        return self.answers[0] if self.mode == "single" else json.dumps(list(self.answers), ensure_ascii=False)


def gold_from_solution(solution: str) -> str | None:
    r"""Return the content of the last balanced, non-empty \boxed of a worked solution, or None."""
    boxes = [box.strip() for box in boxed_answers(solution)]
    return next((box for box in reversed(boxes) if box), None)


def repaired(problem: str) -> Gold | None:
    """Return the corrected gold of a MATH problem with several boxes in its solution, or None.

    The table `gold_repairs.json` holds hashes and short answers only.
    """
    return repairs().get(hashlib.sha1(problem.strip().encode("utf-8"), usedforsecurity=False).hexdigest()[:12])


@cache
def repairs() -> dict[str, Gold]:
    """Return the table of corrected golds by hash of the problem; its own note states the source."""
    table = json.loads(files("marft_envs.data").joinpath("gold_repairs.json").read_text("utf-8"))
    return {key: Gold(tuple(e["answers"]), cast(Mode, e["mode"])) for key, e in table["golds"].items()}


def check_gold(where: str, gold: Gold, language: Literal["en", "zh"]) -> None:
    """Grade a gold against itself.

    Args:
        where: Place of the row, for the message.
        gold: Gold answer to check.
        language: Language of the problem.

    Raises:
        DataError: The grader does not accept it: no agent could ever be right.
    """
    wanted: str | list[str] = gold.answers[0] if gold.mode == "single" else list(gold.answers)
    if gold.mode == "any":
        responses = [f"\\boxed{{{answer}}}" for answer in gold.answers]
    else:
        responses = [f"\\boxed{{{', '.join(gold.answers)}}}"]
    for response in responses:
        grade = grade_math(response, wanted, language=language, mode=gold.mode, use_symbolic=False)
        if not grade.correct:
            raise DataError(
                where, f"gold {gold.text!r} that grades as wrong against itself ({grade.reason})",
                "a readable answer", "fix the answer or remove the row",
            )  # fmt: skip
