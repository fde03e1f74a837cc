"""Gold answers of data sets: extraction from solutions, and splitting of answers with several parts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from marft_envs.grading.extraction import boxed_answers

_MARK = re.compile(
    r"\\?[{}()\[\]]|\\(?:left|right)?\\?[{}()\[\].|]|[,;]|\\text\s?\{\s?(?:and|or),?\s?\}|\b(?:and|or)\b"
)


def last_boxed(solution: str) -> str | None:
    r"""Return the last box of a worked solution, the gold answer of most MATH problems.

    If several boxes differ (`differing_boxes`), the last may be incomplete: check such rows by hand.

    Example:
        >>> last_boxed(r"First $\boxed{3}$, so \boxed{\frac{1}{2}}.")
        '\\frac{1}{2}'
    """
    boxes = boxed_answers(solution)
    return boxes[-1] if boxes else None


def differing_boxes(solution: str) -> list[str]:
    """Return the distinct boxes of a solution in order; a single box leaves no doubt about the gold answer."""
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
    """Join several gold answers to one unordered answer."""
    return ", ".join(golds)
