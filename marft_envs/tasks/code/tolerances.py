"""Checkers of problems that bring none: values compared with the tolerance that the statement names.

A tolerance is a power of ten (`10^{-6}`, `1e-6`, `0.000001`, and what copied texts make of them: `10 - 6`, `10^{-}6`)
in a sentence on errors, precision or distance. Of several the loosest counts. Without one it is 1e-6, absolute or
relative. A statement that takes an answer "in any case" takes YES as yes.
"""

from __future__ import annotations

import re

from marft_envs.sandbox.checkers import JsonValue, Values

_DEFAULT = (1e-6, 1e-6)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|[。！？\n]")
_ERROR = re.compile(r"(?i)\b(?:errors?|tolerance|precision|accura\w+|epsilon|jury)\b|误差|精度|誤差")
_DISTANCE = re.compile(r"(?i)\b(?:within|differ\w*|deviat\w+)\b|相差")
_RELATIVE = re.compile(r"(?i)\brelative(?:ly)?\b|相对|相對")
_ABSOLUTE = re.compile(r"(?i)\babsolute(?:ly)?\b|绝对|絕對")
_POWER = re.compile(
    r"(?<![A-Za-z0-9_.])(?:1(?:\.0*)?[eE][-−–](?P<e>\d{1,2})"
    r"|10(?:\s|\^|\*\*|\{|<sup>)*(?:[-−–](?:\s|\}|\^|\{)*(?P<power>\d{1,2})|⁻(?P<raised>[⁰¹²³⁴-⁹]{1,2}))"
    r"|0?\.(?P<zeros>0+)1)(?![\d.]*[\d%])"
)
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_WORDS = re.compile(r"(?i)\b(?:nan|inf|infinity)\b")
_ANY_CASE = re.compile(r"(?i)\bin (?:any|either|arbitrary) (?:case|register)\b|\bcase[- ]insensitive\b")


def value_checker(statement: str) -> Values:
    """Return the checker of a program's output; nan and inf are words if the statement has them.

    Examples:
        >>> value_checker("The absolute error must not exceed $10^{-4}$.")
        Values(absolute=0.0001, relative=0.0, words=False, any_case=False)
    """
    words, any_case = bool(_WORDS.search(statement)), bool(_ANY_CASE.search(statement))
    return Values(*tolerances(statement), words=words, any_case=any_case)


def result_checker(statement: str, *, may_be_wrapped: bool = False) -> JsonValue:
    """Return the checker of a function's result."""
    return JsonValue(*tolerances(statement), may_be_wrapped=may_be_wrapped)


def tolerances(statement: str) -> tuple[float, float]:
    """Return the absolute and the relative tolerance that a statement names, else the default.

    "Relative or absolute" allows both, and so does an error of no kind. A distance ("within 1e-5") is absolute.
    """
    named = [found for sentence in _SENTENCE.split(statement) if (found := _named(sentence))]
    if not named:
        return _DEFAULT
    # The loosest counts, so that no right output is refused.
    return max(absolute for absolute, _ in named), max(relative for _, relative in named)


def _named(sentence: str) -> tuple[float, float] | None:
    is_error = bool(_ERROR.search(sentence))
    if not is_error and not _DISTANCE.search(sentence):
        return None
    exponents = []
    for match in _POWER.finditer(sentence):
        if zeros := match["zeros"]:  # 0.0001
            exponent = len(zeros) + 1
        else:
            exponent = int(match["e"] or match["power"] or match["raised"].translate(_RAISED))
        if 0 < exponent <= 18:
            exponents.append(exponent)
    if not exponents:
        return None
    tolerance = float(f"1e-{min(exponents)}")
    relative, absolute = bool(_RELATIVE.search(sentence)), bool(_ABSOLUTE.search(sentence))
    if not relative and not absolute:
        absolute, relative = True, is_error
    return tolerance * absolute, tolerance * relative
