"""Column formats of data sets with answers, recognised by column names for any kind of task.

| format | columns (case ignored) | answer |
|---|---|---|
| MARFT's copies | problem, final_answer | final_answer |
| MATH-500, AIME, MathArena | problem, answer | answer |
| MATH (hendrycks_math, MATH-lighteval) | problem, solution | the last box of the solution, repaired |
| CMATH | question, golden | golden |
| GSM8K | question, answer | after "####", commas removed |
| stories and other plain sets | question, answer | answer |

The first format with all of its columns present is taken. Further columns become id and metadata: id, unique_id,
problem_idx; level ("Level 3" or 3), subject or type, grade, reasoning_step(s), num_digits, year.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

from envs_data import DataError
from marft_envs.data.files import Row
from marft_envs.data.golds import Gold, gold_from_solution, repaired
from marft_envs.spaces import is_clean

MetaValue = str | int | float


@dataclass(frozen=True)
class Format:
    """One arrangement of columns.

    Attributes:
        name: Name for error messages.
        prompt: Column that holds the problem.
        answer: Column that holds or contains the answer.
        read: The answer within that column, or None if there is none.
    """

    name: str
    prompt: str
    answer: str
    read: Callable[[str], str | None]


class Fields(dict[str, Any]):
    """The columns of a row under lower-case names."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        super().__init__({str(name).strip().lower(): value for name, value in columns.items()})

    def text(self, name: str) -> str:
        """Return a column as stripped text; "" if it holds neither text that UTF-8 can write nor a finite number."""
        value: Any = self.get(name)
        if isinstance(value, str):
            return value.strip() if is_clean(value) else ""
        is_number = isinstance(value, Real | Decimal) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value):
            return ""
        return str(int(value)) if value == int(value) else str(value)


def _after_hashes(answer: str) -> str:
    """Return the text after the last "####" without thousands commas, or the text itself if there is none."""
    _, marker, final = answer.rpartition("####")
    return re.sub(r"(?<=\d),(?=\d{3})", "", final.strip()) if marker else answer


FORMATS = (
    Format("MARFT copy", "problem", "final_answer", lambda text: text),
    Format("MATH-500 or AIME", "problem", "answer", lambda text: text),
    Format("MATH", "problem", "solution", gold_from_solution),
    Format("CMATH", "question", "golden", lambda text: text),
    Format("GSM8K or plain", "question", "answer", _after_hashes),
)
ID_COLUMNS = ("id", "unique_id", "problem_idx")
META_COLUMNS = {
    "level": "level",
    "subject": "subject",
    "type": "subject",
    "grade": "grade",
    "reasoning_step": "reasoning_steps",
    "reasoning_steps": "reasoning_steps",
    "num_digits": "num_digits",
    "year": "year",
}


def recognise(row: Row) -> Format:
    """Return the format of a row.

    Raises:
        DataError: Its columns match no format.
    """
    fields = Fields(row.columns)
    for each in FORMATS:
        if each.prompt in fields and each.answer in fields:
            return each
    found = ", ".join(map(str, row.columns)) or "none"
    wanted = "; ".join(f"{each.prompt} + {each.answer} ({each.name})" for each in FORMATS)
    raise DataError(row.where, f"columns {found}", f"one of: {wanted}", "rename the columns")


def read_prompt(row: Row, fields: Fields, form: Format) -> str:
    """Return the problem's text.

    Raises:
        DataError: It is missing or empty.
    """
    prompt = fields.text(form.prompt)
    if not prompt:
        found = _found(fields, form.prompt, "no text")
        raise DataError(row.where, found, "a problem as text", "complete or remove the row")
    return prompt


def read_gold(row: Row, fields: Fields, form: Format, prompt: str) -> Gold:
    """Return the answer of a row.

    Raises:
        DataError: There is none.
    """
    repair = repaired(prompt)
    if repair is not None:
        return repair
    answer = form.read(fields.text(form.answer))
    if not answer:
        found = _found(fields, form.answer, r"no \boxed answer" if form.name == "MATH" else "no answer")
        raise DataError(row.where, found, "one, as text or number", "complete or remove the row")
    return Gold((answer,))


def _found(fields: Fields, column: str, nothing: str) -> str:
    """Return what a column without usable text holds: a value of another type, or nothing."""
    value = fields[column]
    if isinstance(value, list | tuple | Mapping):
        kind = "an object" if isinstance(value, Mapping) else f"a list of {len(value)}"
        return f"{kind} in column {column!r}: {str(value)[:60]}"
    return f"{nothing} in column {column!r}"


def read_id(fields: Fields) -> str | None:
    """Return the row's own id, or None."""
    return next((text for name in ID_COLUMNS if (text := fields.text(name))), None)


def read_meta(fields: Fields) -> dict[str, MetaValue]:
    """Return the metadata; whole numbers are int ("Level 3" is 3), empty columns are left out."""
    meta: dict[str, MetaValue] = {}
    for column, name in META_COLUMNS.items():
        text = fields.text(column)
        if text and name not in meta:
            number = re.fullmatch(r"(?:Level )?(\d{1,9})", text)
            meta[name] = int(number[1]) if number else text
    return meta
