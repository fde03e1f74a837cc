"""Parse the text of an answer to tokens and an expression tree, with a cache."""

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
    """Result of parsing an answer.

    Attributes:
        tokens: Canonical tokens; empty for a blank text or one beyond the length bound.
        tree: Expression tree; None if the text is not in the grammar or beyond a bound.
        problem: Reason for a missing tree; empty if there is a tree.
        too_large: True if a bound of `limits` was exceeded.
    """

    tokens: tuple[Token, ...]
    tree: Node | None
    problem: str = ""
    too_large: bool = False


_PLAIN_NUMBER = re.compile(r"(-?)([0-9]{1,40}(?:\.[0-9]{1,40})?)")  # most answers: skips tokenizer and parser


@lru_cache(maxsize=4096)
def read(text: str, language: str = "en") -> Reading:
    """Parse an answer; the result is cached, and problems are returned instead of raised."""
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
    """Return the reading of a plain number, equal to that of tokenizer and parser."""
    tree = number(int(literal)) if literal.isdigit() else number(Fraction(literal), literal)
    token = Token("number", literal)
    if sign:
        return Reading((Token("mark", "-"), token), Node("neg", (tree,)))
    return Reading((token,), tree)
