"""Parsing of the atoms of an expression: names, functions, fractions, roots and brackets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from marft_envs.grading.expression import Node, is_scalar, number
from marft_envs.grading.limits import NotReadableError
from marft_envs.grading.literals import based, plain_number, repeating
from marft_envs.grading.tokens import Token

if TYPE_CHECKING:
    from marft_envs.grading.scalar_parser import ScalarParser

_INVERSES = {"sin": "arcsin", "cos": "arccos", "tan": "arctan", "cot": "arccot"}


def variable(parser: ScalarParser, token: Token) -> Node:
    """Read a letter with its index; e and i are constants."""
    name = token.text
    if name in ("pi", "e", "i", "oo"):
        return Node("const", name=name)
    if parser.take("_"):
        name += "_" + index_text(parser)
    return Node("var", name=name)


def index_text(parser: ScalarParser) -> str:
    """Read the index of a variable as text."""
    if not parser.take("{"):
        return parser.take_any().text
    start = parser.index
    while parser.next.text not in ("}", ""):
        parser.index += 1
    text = "".join(token.text for token in parser.tokens[start : parser.index])
    parser.expect("}")
    return text


def letters(parser: ScalarParser, token: Token) -> Node:
    """Read two or three adjacent letters as a product; its name keeps the letters, as they may be a word."""
    product = variable(parser, Token("variable", token.text[0]))
    for letter in token.text[1:-1]:
        product = parser.node("mul", product, variable(parser, Token("variable", letter)))
    last = parser.power(variable(parser, Token("variable", token.text[-1])))
    product = parser.node("mul", product, last, name=token.text if last.kind in ("var", "const") else "")
    return product


def function(parser: ScalarParser, token: Token) -> Node:
    """Read a function with its base, power and argument."""
    name, base, exponent = token.text, None, None
    while parser.next.text in ("_", "^") and parser.next.kind == "mark":
        mark = parser.next.text
        parser.index += 1
        part = parser.argument()
        base, exponent = (part, exponent) if mark == "_" else (base, part)
    if exponent is not None and exponent == Node("neg", (number(1),)) and name in _INVERSES:
        name, exponent = _INVERSES[name], None
    args = function_arguments(parser)
    result = parser.node("func", *args, *([base] if base else []), name=name + ("_" if base else ""))
    return result if exponent is None else parser.node("pow", result, exponent)


def function_arguments(parser: ScalarParser) -> tuple[Node, ...]:
    r"""Read ``(x)``, ``{x}`` or the product up to the next sign or function."""
    if parser.next.text in ("(", "{", "|"):
        inner = parser.atom()
        if inner.kind in ("tuple", "list"):
            return inner.args
        if not is_scalar(inner):
            raise NotReadableError("a function of a structure")
        return (inner,)
    product = parser.factor()
    while parser.starts_factor(parser.next) and parser.next.kind != "function" and parser.next.text != "(":
        product = parser.node("mul", product, parser.factor())
    return (product,)


def fraction(parser: ScalarParser, token: Token) -> Node:
    r"""Read ``\frac{a}{b}``."""
    above = parser.argument()
    return parser.node("div", above, parser.argument())


def binomial(parser: ScalarParser, token: Token) -> Node:
    r"""Read ``\binom{n}{k}``."""
    above = parser.argument()
    return parser.node("binom", above, parser.argument())


def root(parser: ScalarParser, token: Token) -> Node:
    r"""Read ``\sqrt[n]{a}``; without braces the radicand is a whole number or one factor."""
    degree = number(2)
    if parser.take("["):
        degree = parser.sum()
        parser.expect("]")
    if parser.take("{"):
        return parser.node("root", parser.group(token), degree)
    parser.enter()
    radicand = parser.atom()
    parser.depth -= 1
    return parser.node("root", radicand, degree)


def absolute(parser: ScalarParser, token: Token) -> Node:
    """Read an absolute value up to its closing bar."""
    parser.enter()
    parser.bars += 1
    inner = parser.sum()
    parser.expect("|")
    parser.bars -= 1
    parser.depth -= 1
    return parser.node("abs", inner)


def rounded(parser: ScalarParser, token: Token) -> Node:
    """Read a floor or a ceiling."""
    parser.enter()
    inner = parser.sum()
    parser.expect("r" + token.text[1:])
    parser.depth -= 1
    return parser.node(token.text[1:], inner)


def infinity(parser: ScalarParser, token: Token) -> Node:
    """Read the symbol of infinity."""
    return Node("const", name="oo")


def bracketed(parser: ScalarParser, token: Token) -> Node:
    """Read a bracket: a group, a tuple or an interval."""
    parser.enter()
    bars, parser.bars = parser.bars, 0
    closers = {"(": (")", "]"), "[": (")", "]"), "{set": ("set}",), "langle": ("rangle",)}[token.text]
    if token.text == "{set":
        builder_head(parser)
    empty = parser.next.text in closers
    inner = Node("list") if empty else parser.listing()
    closer = parser.next.text
    if closer not in closers:
        raise NotReadableError(f"unclosed {token.text!r}")
    parser.index += 1
    parser.bars = bars
    parser.depth -= 1
    items = inner.args if inner.kind == "list" else (inner,)
    if token.text == "{set":
        if len(items) == 1 and (items[0].kind in ("rel", "cup", "cap")):
            return items[0]
        if inner.kind == "list" and items and all(item.kind == "rel" and item.name != "=" for item in items):
            return inner
        return parser.node("set", *items) if items else Node("emptyset")
    if token.text == "langle":
        return parser.node("tuple", *items, name="()")
    if len(items) == 1 and inner.kind != "list":
        return inner if inner.kind != "mul" else inner._replace(name="")
    return parser.node("tuple", *items, name=token.text + closer)


def builder_head(parser: ScalarParser) -> None:
    r"""Skip ``x \mid`` or ``x \in \mathbb{R} :`` of a set given by a condition."""
    if parser.next.kind == "variable" and parser.peek(1).text in ("|", ":", "in"):
        for offset in range(1, 8):
            if parser.peek(offset).text in ("|", ":"):
                parser.index += offset + 1
                return


def group(parser: ScalarParser, token: Token) -> Node:
    """Read a group in braces."""
    return parser.group(token)


Reader = Callable[["ScalarParser", Token], Node]
BY_KIND: dict[str, Reader] = {
    "number": plain_number, "repeating": repeating, "based": based, "variable": variable, "letters": letters,
    "function": function,
}  # fmt: skip
BY_MARK: dict[str, Reader] = {
    "(": bracketed, "[": bracketed, "{set": bracketed, "langle": bracketed, "{": group, "|": absolute,
    "frac": fraction, "sqrt": root, "binom": binomial, "lfloor": rounded, "lceil": rounded, "oo": infinity,
}  # fmt: skip
