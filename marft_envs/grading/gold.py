"""Gold answers of data sets: taken from solutions, and the pieces of answers with several parts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from marft_envs.grading.extraction import boxed_answers

_MARK = re.compile(
    r"\\?[{}()\[\]]|\\(?:left|right)?\\?[{}()\[\].|]|[,;]|\\text\s?\{\s?(?:and|or),?\s?\}|\b(?:and|or)\b"
)


def last_boxed(solution: str) -> str | None:
    r"""Return the last box of a worked solution, the gold of most MATH problems.

    Where several boxes differ (`differing_boxes`) the last alone may be incomplete: such rows need a look.

    Example:
        >>> last_boxed(r"First $\boxed{3}$, so \boxed{\frac{1}{2}}.")
        '\\frac{1}{2}'
    """
    boxes = boxed_answers(solution)
    return boxes[-1] if boxes else None


def differing_boxes(solution: str) -> list[str]:
    """Return the distinct boxes of a solution in order; one element means that nothing is doubtful."""
    return list(dict.fromkeys(box for box in boxed_answers(solution) if box))


def split_elements(text: str) -> list[str]:
    r"""Split an answer at the commas, semicolons, "and" and "or" outside its brackets.

    Example:
        >>> split_elements(r"(1,2), (3,4) \text{ and } \{5,6\}")
        ['(1,2)', '(3,4)', '\\{5,6\\}']
    """
    parts: list[str] = []
    depth = start = 0
    for mark in _MARK.finditer(text):
        symbol = mark.group()
        if symbol[-1] in "([{" and len(symbol) <= 2:
            depth += 1
        elif symbol[-1] in ")]}" and len(symbol) <= 2:
            depth -= 1
        elif depth <= 0 and (symbol in (",", ";") or symbol[-1].isalpha() or symbol.startswith(r"\text")):
            parts.append(text[start : mark.start()])
            start = mark.end()
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def joined(golds: Sequence[str]) -> str:
    """Write several golds as one unordered answer."""
    return ", ".join(golds)
