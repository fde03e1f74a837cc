"""Text of an answer to its tokens and its tree; the last readings are kept."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from marft_envs.grading.answer_parser import parse
from marft_envs.grading.characters import plain_characters
from marft_envs.grading.expression import Node, number
from marft_envs.grading.extraction import boxed_answers
from marft_envs.grading.limits import MAX_ANSWER_CHARS, LimitExceededError, NotReadableError
from marft_envs.grading.numerals import chinese_to_digits
from marft_envs.grading.tokens import Token, tokenize


class Reading(NamedTuple):
    """What was understood of a text.

    Attributes:
        tokens: The canonical tokens; empty for a blank text.
        tree: The tree; None if the text is not in the grammar.
        problem: Why there is no tree.
        too_large: Whether a bound was the reason.
    """

    tokens: tuple[Token, ...]
    tree: Node | None
    problem: str = ""
    too_large: bool = False


_PLAIN_NUMBER = re.compile(r"(-?)([0-9]{1,40}(?:\.[0-9]{1,40})?)")  # most answers; saves tokenizer and parser


@lru_cache(maxsize=4096)
def read(text: str, language: str = "en") -> Reading:
    """Read an answer; never raises."""
    if len(text) > MAX_ANSWER_CHARS:
        return Reading((), None, f"longer than {MAX_ANSWER_CHARS} characters", True)
    plain_number = _PLAIN_NUMBER.fullmatch(text)
    if plain_number:
        return _read_number(*plain_number.groups())
    tokens: tuple[Token, ...] = ()
    if "boxed" in text:
        text = (boxed_answers(text) or [text])[-1]
    try:
        plain = chinese_to_digits(text) if language == "zh" else text
        tokens = tokenize(plain_characters(plain))
        return Reading(tokens, parse(tokens))
    except LimitExceededError as error:
        return Reading(tokens, None, str(error), True)
    except NotReadableError as error:
        return Reading(tokens, None, str(error))


def _read_number(sign: str, literal: str) -> Reading:
    """Return what tokenizer and parser would return."""
    tree = number(int(literal)) if literal.isdigit() else number(Fraction(literal), literal)
    token = Token("number", literal)
    if sign:
        return Reading((Token("mark", "-"), token), Node("neg", (tree,)))
    return Reading((token,), tree)
