"""Grading cascade: extraction, equal text, equal number, equal structure, then symbolic algebra."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from marft_envs.grading import symbolic
from marft_envs.grading.answer_parser import Reading, read
from marft_envs.grading.comparison import compare
from marft_envs.grading.evaluation import as_vectors
from marft_envs.grading.expression import Node, is_formula, is_scalar
from marft_envs.grading.extraction import (
    Language,
    Method,
    boxed_answers,
    check_methods,
    extract,
    final_part,
    split_elements,
)
from marft_envs.grading.limits import MAX_SYMBOLIC_CHARS, LimitExceededError, NotReadableError

Mode = Literal["single", "any", "all", "ordered"]
MODES: tuple[Mode, ...] = ("single", "any", "all", "ordered")
_PREVIEW_CHARS = 80


@dataclass(frozen=True)
class Grade:
    """Verdict of the grader on a response.

    Attributes:
        correct: True if the answer is equivalent to the gold answer.
        extracted: The extracted answer; None if there is none.
        method: Tier that decided: "none" (no answer found), "string", "numeric", "structure", "symbolic",
            "undecided" (no tier could decide; not correct), "timeout" (the symbolic worker was killed; not correct),
            "limit" (too large to grade; not correct).
        reason: One sentence that explains the verdict.
    """

    correct: bool
    extracted: str | None
    method: str
    reason: str


class Equivalence(NamedTuple):
    """Equivalence of two answers (None: undecided), the deciding tier, and the reason."""

    same: bool | None
    method: str
    reason: str


def grade_math(
    response: str,
    gold: str | Sequence[str],
    language: Language = "en",
    *,
    extraction: Sequence[Method] = ("boxed",),
    mode: Mode = "single",
    use_symbolic: bool = True,
) -> Grade:
    r"""Grade the final answer of a response.

    Args:
        response: Whole response of a model; any text is allowed.
        gold: The gold answer; several for modes other than "single".
        language: "zh" also reads Chinese numerals, units and phrases.
        extraction: Ways to find the answer, tried in order: "boxed", "answer", "number".
        mode: "single": one gold; "any": one of the golds suffices; "all": all of them, in any order;
            "ordered": all of them in this order. For "all" and "ordered" the answers may be in one box or in
            the last boxes. A gold that is a list or set ("1, 2") may also be answered with one box for each of its
            elements, if the response has no other boxes.
        use_symbolic: True to send undecided pairs to the symbolic worker.

    Raises:
        ValueError: Blank gold answer, or unknown language, mode or method.

    Examples:
        >>> grade_math(r"so it is $\boxed{\frac{2}{4}}$", "0.5").correct
        True
        >>> grade_math("it is 0.5", "0.5").method
        'none'
    """
    golds = _checked_golds(gold, mode)
    check_methods(language, extraction)
    answer = extract(response, language, extraction)
    if answer is None:
        return Grade(False, None, "none", f"no answer found by {', '.join(extraction)}")
    verdict = _MODES[mode](golds, answer, response, language, use_symbolic)
    return Grade(bool(verdict.same), answer, verdict.method, verdict.reason)


def equivalent(gold: str, answer: str, language: Language = "en") -> bool:
    r"""True if two answers are equivalent; symmetric, and reflexive for any text that is not blank.

    Examples:
        >>> equivalent(r"\frac{1}{2}", "0.5"), equivalent("50", "0.5"), equivalent("[1,2)", "(1,2]")
        (True, False, False)
    """
    return bool(decide(gold, answer, language).same)


def decide(first: str, second: str, language: str = "en", use_symbolic: bool = True) -> Equivalence:
    """Run the whole cascade on two answers; errors become an undecided verdict."""
    first, second = sorted((first.strip(), second.strip()))
    if not first:
        return Equivalence(False, "none", "blank answer")
    if first == second:
        return Equivalence(True, "string", "same text")
    try:
        verdict = decide_bounded(first, second, language)
    except Exception as error:  # last resort; tests attack `decide_bounded` directly
        return Equivalence(None, "undecided", f"internal {type(error).__name__}: {error}"[:200])
    if verdict.same is not None or verdict.method != "undecided" or not use_symbolic:
        return verdict
    readings = [read(text, language) for text in (first, second)]
    if any(reading.tree is None or reading.vectors or not is_formula(reading.tree) for reading in readings):
        return verdict
    return _decide_symbolic(first, second)


def decide_bounded(first: str, second: str, language: str = "en") -> Equivalence:
    """Run the tiers that take about a millisecond: text, numbers, structures."""
    first, second = sorted((first, second))  # makes the verdict symmetric
    one, other = read(first, language), read(second, language)
    if one.too_large or other.too_large:
        return Equivalence(None, "limit", one.problem or other.problem)
    if one.tokens and one.tokens == other.tokens:
        return Equivalence(True, "string", "same text but for layout")
    if one.tree is None or other.tree is None:
        return _decide_unread(one, other)
    vectors = one.vectors | other.vectors
    trees = [as_vectors(tree, vectors) if vectors else tree for tree in (one.tree, other.tree)]
    return _decide_trees(trees[0], trees[1], f"{first[:_PREVIEW_CHARS]!r} and {second[:_PREVIEW_CHARS]!r}")


def _decide_trees(one: Node, other: Node, names: str) -> Equivalence:
    method = "numeric" if is_scalar(one) and is_scalar(other) else "structure"
    try:
        same = compare(one, other)
    except LimitExceededError as error:
        return Equivalence(None, "limit", str(error))
    except NotReadableError as error:
        return Equivalence(None, "undecided", str(error))
    if same is None:
        return Equivalence(None, "undecided", f"{names} agree where they can be computed, not surely everywhere")
    return Equivalence(same, method, f"{names} are {'equivalent' if same else 'different'}")


def _decide_unread(one: Reading, other: Reading) -> Equivalence:
    """Decide for a text outside of the grammar.

    Prose is not a number. Two numbers with words between them are not one number.
    """
    for reading, opposite in ((one, other), (other, one)):
        if reading.tree is not None or opposite.tree is None:
            continue
        if is_scalar(opposite.tree) and _is_range(reading):
            return Equivalence(False, "structure", "several numbers with words between are not one number")
        num_words = sum(token.kind == "word" for token in reading.tokens)
        if num_words >= 3 and opposite.tree.kind != "text":
            return Equivalence(False, "structure", f"prose is not the answer: {reading.problem}")
    return Equivalence(None, "undecided", one.problem or other.problem)


def _is_range(reading: Reading) -> bool:
    """True if only words or dots separate two numbers: 7 remainder 2, 7到9, 7...2."""
    is_after_number = is_gap = False
    for token in reading.tokens:
        if token.kind == "word" or set(token.text) == {"."}:
            is_gap = True
        elif token.kind == "number" and is_after_number and is_gap:
            return True
        else:
            is_after_number, is_gap = token.kind == "number", False
    return False


def _decide_symbolic(first: str, second: str) -> Equivalence:
    if max(len(first), len(second)) > MAX_SYMBOLIC_CHARS:
        return Equivalence(None, "limit", f"longer than {MAX_SYMBOLIC_CHARS} characters")
    try:
        decision = _cached_decision(first, second)
    except _UnavailableError:
        return Equivalence(None, "undecided", "needs math-verify: install the extra `math`")
    if decision == "timeout":
        return Equivalence(None, "timeout", "the symbolic worker exceeded its limits and was killed")
    return Equivalence(decision == "equal", "symbolic", f"math-verify says {decision}")


class _UnavailableError(Exception):
    """No symbolic worker; an exception, because `lru_cache` does not cache exceptions."""


@lru_cache(maxsize=10_000)
def _cached_decision(first: str, second: str) -> symbolic.Decision:
    decision = symbolic.decide(first, second)
    if decision == "unavailable":
        raise _UnavailableError
    return decision


def _checked_golds(gold: str | Sequence[str], mode: str) -> list[str]:
    golds = [gold] if isinstance(gold, str) else list(gold)
    if mode not in MODES:
        raise ValueError(f"mode: found {mode!r}, wanted one of {list(MODES)}")
    if mode == "single" and len(golds) != 1:
        raise ValueError(f"gold: found {len(golds)} answers for mode 'single', wanted one (or another mode)")
    if not golds or any(not text.strip() for text in golds):
        raise ValueError("gold: found a blank answer, wanted text; repair the row or leave it out")
    return golds


def _grade_any(golds: list[str], answer: str, response: str, language: str, use_symbolic: bool) -> Equivalence:
    verdict = Equivalence(False, "none", "no gold")
    for gold in golds:
        verdict = decide(gold, answer, language, use_symbolic)
        if not verdict.same and (listed := _listed_in_boxes(gold, answer, response, language)):
            verdict = decide(gold, listed, language, use_symbolic)
        if verdict.same:
            break
    return verdict


def _listed_in_boxes(gold: str, answer: str, response: str, language: str) -> str | None:
    r"""Return ``\boxed{1}, \boxed{2}`` as the list "1, 2" if the gold is a list or set of as many answers.

    The boxes of the response must match the gold in number, so a guess in an additional box gains nothing.
    Return None otherwise; for a gold that is not a list only the last box counts.
    """
    if response.count("box") < 2:  # most responses: skips a second search
        return None
    boxes = boxed_answers(final_part(response))
    if len(boxes) < 2 or answer != boxes[-1]:
        return None
    tree = read(gold, language).tree
    if tree is None or tree.kind not in ("list", "set"):
        return None
    distinct = list(dict.fromkeys(boxes))
    listed = next((parts for parts in (boxes, distinct) if len(parts) == len(tree.args)), None)
    if listed is None or any(len(split_elements(part)) != 1 for part in listed):
        return None
    return ", ".join(listed)


def _grade_all(golds: list[str], answer: str, response: str, language: str, use_symbolic: bool) -> Equivalence:
    verdict = decide(", ".join(golds), answer, language, use_symbolic and len(golds) == 1)
    if verdict.same or len(golds) == 1:
        return verdict
    for parts in _candidates(golds, answer, response):
        rest = list(parts)
        for gold in golds:
            match = next((part for part in rest if decide(gold, part, language, use_symbolic).same), None)
            if match is None:
                break
            rest.remove(match)
        else:
            return Equivalence(True, "structure", f"all {len(golds)} answers found")
    return Equivalence(False, "structure", f"not all of the {len(golds)} answers found")


def _grade_ordered(golds: list[str], answer: str, response: str, language: str, use_symbolic: bool) -> Equivalence:
    for parts in _candidates(golds, answer, response):
        if all(decide(gold, part, language, use_symbolic).same for gold, part in zip(golds, parts, strict=True)):
            return Equivalence(True, "structure", f"all {len(golds)} answers in order")
    return Equivalence(False, "structure", f"not the {len(golds)} answers in order")


def _candidates(golds: list[str], answer: str, response: str) -> list[list[str]]:
    """Return the readings of a response as `len(golds)` answers: parts of one box, or the last boxes."""
    parts = split_elements(answer)
    boxes = boxed_answers(final_part(response))
    distinct = list(dict.fromkeys(boxes))
    found = [parts, boxes[-len(golds) :], distinct[-len(golds) :]]
    return [list(reading) for reading in dict.fromkeys(map(tuple, found)) if len(reading) == len(golds)]


_MODES: dict[str, Callable[[list[str], str, str, str, bool], Equivalence]] = {
    "single": _grade_any, "any": _grade_any, "all": _grade_all, "ordered": _grade_ordered,
}  # fmt: skip
