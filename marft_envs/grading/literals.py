"""Parsing of number literals: mixed numbers, repeating decimals, numbers with a base."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING

from marft_envs.grading.expression import Node, number
from marft_envs.grading.limits import NotReadableError
from marft_envs.grading.tokens import Token

if TYPE_CHECKING:
    from marft_envs.grading.scalar_parser import ScalarParser

_BASE_NAMES = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "twelve": 12, "sixteen": 16,
}  # fmt: skip
_ELLIPSIS = re.compile(r"(\d{1,50})\.(\d{0,50}?)(\d{1,6}?)\3{2,}\D+$")


def plain_number(parser: ScalarParser, token: Token) -> Node:
    """Read an integer, a decimal or a mixed number."""
    text = token.text
    if text.isdigit():
        return mixed(parser, number(int(text)))
    try:
        return number(Fraction(text if text[-1] != "." else text[:-1]), text)
    except ValueError as error:
        raise NotReadableError(f"no number: {text!r}") from error


def mixed(parser: ScalarParser, whole: Node) -> Node:
    r"""Read the fraction of ``2\frac{3}{4}`` or ``2 3/4``; without a fraction return `whole`."""
    start = parser.index
    above = below = None
    if parser.take("frac"):
        above, below = digit_argument(parser), digit_argument(parser)
    elif parser.next.kind == "number" and parser.peek(1).text == "/" and parser.peek(2).kind == "number":
        above, below = parser.next.text, parser.peek(2).text
        parser.index += 3
    if above and below and above.isdigit() and below.isdigit() and int(above) < int(below):
        assert whole.value is not None
        return number(whole.value + Fraction(int(above), int(below)))
    parser.index = start
    return whole


def digit_argument(parser: ScalarParser) -> str | None:
    """Read ``{12}`` or one digit; return None for any other argument."""
    if parser.next.text == "{" and parser.peek(1).kind == "number" and parser.peek(2).text == "}":
        parser.index += 3
        return parser.tokens[parser.index - 2].text
    if parser.next.kind == "number" and parser.next.text.isdigit():
        return first_digit(parser)
    return None


def first_digit(parser: ScalarParser) -> str:
    """Take the first digit of the next number, as TeX does for an argument without braces."""
    digits = parser.next.text
    if len(digits) == 1:
        parser.index += 1
    else:
        rest = Token("number", digits[1:])
        parser.tokens = (*parser.tokens[: parser.index], rest, *parser.tokens[parser.index + 1 :])
    return digits[0]


def repeating(parser: ScalarParser, token: Token) -> Node:
    r"""Read ``0.1\overline{6}``, ``0.\dot{1}4285\dot{7}``, ``0.(3)`` or ``0.333...``."""
    if "." in token.text[-3:] or token.text.endswith("dots"):
        match = _ELLIPSIS.match(token.text)
        if match is None:
            raise NotReadableError("decimals that go on unknown")
        whole, fixed, period = match.groups()
    else:
        head, rest = re.split(r"[\\(]", token.text, maxsplit=1)
        whole, _, fixed = head.partition(".")
        period = re.sub(r"\D", "", rest)
    shift = 10 ** len(fixed)
    tail = Fraction(int(period), 10 ** len(period) - 1)
    return number((int((whole or "0") + fixed) + tail) / shift)


def based(parser: ScalarParser, token: Token) -> Node:
    """Read digits with a base: ``1A_{16}``."""
    digits, _, subscript = token.text.partition("_")
    base_text = re.sub(r"\\text|[{}\s]", "", subscript)
    base = int(base_text) if base_text.isdigit() else _BASE_NAMES.get(base_text, 0)
    if not 2 <= base <= 36 or any(int(digit, 36) >= base for digit in digits):
        raise NotReadableError(f"no number of base {base_text}")
    return Node("based", (number(int(digits, base)),), Fraction(base), digits)
