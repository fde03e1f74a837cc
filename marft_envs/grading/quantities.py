"""Parsing of quantities: currency, units, scale words, ratios and times of day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from marft_envs.grading.expression import Node, is_scalar, number
from marft_envs.grading.limits import NotReadableError
from marft_envs.grading.phrases import CONDITION_WORDS, SEPARATORS
from marft_envs.grading.set_literals import special_set
from marft_envs.grading.tokens import Token
from marft_envs.grading.units import combined

if TYPE_CHECKING:
    from marft_envs.grading.answer_parser import AnswerParser

_SCALES = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_MONEY = frozenset({"dollar", "euro", "pound", "yen"})
_PERCENT_WORDS = frozenset({"percent", "pct", "per cent", "percentage"})


def ratio(parser: AnswerParser) -> Node:
    """Read ``a:b``; the node's name marks a possible time of day."""
    start = parser.index
    first = quantity(parser)
    if parser.next.text != ":" or parser.next.kind != "mark":
        return whole_hour(parser, first)
    parts = [first]
    while parser.next.text == ":" and parser.next.kind == "mark":
        parser.index += 1
        parts.append(parser.sum())
    pieces = parser.tokens[start : parser.index : 2]
    is_clock = len(pieces) <= 3 and all(
        token.kind == "number" and len(token.text) == (2 if place else len(token.text[:2]))
        for place, token in enumerate(pieces)
    )
    half = meridiem(parser) if is_clock else ""
    return parser.node("ratio", *parts, name=f"clock {half}".strip() if is_clock else "")


def whole_hour(parser: AnswerParser, hour: Node) -> Node:
    """Convert ``3 pm`` to a time of day."""
    if hour.kind == "quantity" and hour.name.lower() in ("am", "pm"):
        return parser.node("ratio", hour.args[0], number(0), name=f"clock {hour.name.lower()}")
    return hour


def meridiem(parser: AnswerParser) -> str:
    """Read the suffix am or pm."""
    bracket = parser.next.text == "(" and parser.peek(2).text == ")"
    token = parser.peek(1) if bracket else parser.next
    if token.kind in ("word", "letters") and token.text.lower() in ("am", "pm"):
        parser.index += 3 if bracket else 1
        return token.text.lower()
    return ""


def quantity(parser: AnswerParser) -> Node:
    """Read an expression with a currency before or a unit after it."""
    negative = parser.next.text == "-" and parser.peek(1).text in _MONEY
    parser.index += negative
    money = parser.next.text if parser.next.kind == "mark" and parser.next.text in _MONEY else ""
    parser.index += bool(money)
    amount = special_set(parser) or parser.sum()
    amount = parser.node("neg", amount) if negative else amount
    if money:
        amount = scaled(parser, amount)
        unit_phrase(parser)
        return parser.node("quantity", amount, name=money)
    return with_unit(parser, amount)


def with_unit(parser: AnswerParser, amount: Node) -> Node:
    """Read the unit after an amount, and further amounts as in 2 h 30 min."""
    if not is_scalar(amount):
        return amount
    amount = scaled(parser, amount)
    unit = bracketed_unit(parser) or unit_phrase(parser)
    if not unit:
        return amount
    if unit.lower() in _PERCENT_WORDS:
        return parser.node("percent", amount)
    result = parser.node("quantity", amount, name=unit)
    while parser.next.kind == "number":
        other = with_unit(parser, parser.sum())
        scale = combined(unit, other.name) if other.kind == "quantity" else None
        if scale is None:
            raise NotReadableError("two amounts side by side")
        added = parser.node("add", result.args[0], parser.node("mul", other.args[0], number(scale)))
        result = parser.node("quantity", added, name=unit)
    return result


def scaled(parser: AnswerParser, amount: Node) -> Node:
    """Read a scale word such as "million" after an amount."""
    scale = _SCALES.get(parser.next.text.lower()) if parser.next.kind == "word" else None
    if scale is None:
        return amount
    parser.index += 1
    return parser.node("mul", amount, number(scale))


def bracketed_unit(parser: AnswerParser) -> str:
    """Read a unit in brackets: 18 (cm)."""
    if parser.next.text != "(" or parser.peek(1).kind != "word":
        return ""
    start = parser.index
    parser.index += 1
    phrase = unit_phrase(parser)
    if phrase and parser.take(")"):
        return phrase
    parser.index = start
    return ""


def unit_phrase(parser: AnswerParser) -> str:
    """Read words (with / ^ and numbers between them) as one phrase; empty if there are none."""
    start = parser.index
    while parser.next.kind != "end" and _continues_unit(parser, started=parser.index > start):
        parser.index += 1
    return " ".join(token.text for token in parser.tokens[start : parser.index])


def _continues_unit(parser: AnswerParser, started: bool) -> bool:
    (kind, text), ahead = parser.next, parser.peek(1)
    if kind == "word":
        return text.lower() not in SEPARATORS and text not in CONDITION_WORDS
    if kind == "mark" and text in _MONEY:
        return True
    if text in ("/", "*"):
        return ahead.kind == "word" or (started and ahead.kind == "variable")
    return started and (kind in ("variable", "letters") or _is_unit_power(parser, text, ahead))


def _is_unit_power(parser: AnswerParser, text: str, ahead: Token) -> bool:
    if text == "^":
        return True
    before = parser.tokens[parser.index - 1].text
    return (
        (before == "^" and (text in ("{", "-") or text.isdigit()))
        or (before == "{" and text.isdigit())
        or (before == "-" and text.isdigit())
        or (text == "}" and parser.tokens[parser.index - 2].text in ("{", "-", "^"))
    )
