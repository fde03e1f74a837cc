"""Expression tree of an answer."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple


class Node(NamedTuple):
    """Node of an expression tree.

    | scalar kind | fields |
    |---|---|
    | num | value; name = the literal if it was a decimal |
    | const | name = pi, e, i or oo |
    | root | args = radicand, index |
    | func | name = the function |
    | series | args = bounds and body; name = sum, prod, int or lim |
    | call | name = an unknown function with its primes; args = its arguments |
    | quantity | name = the unit phrase |
    | based | name = digits, value = base |
    | var, add, mul, div, neg, pow, abs, floor, ceil, fact, binom, pm, mp, percent, degree | |

    | structure | fields |
    |---|---|
    | tuple | name = its two brackets |
    | rel | name = operators joined by blanks |
    | matrix | args = rows |
    | ratio | name = "clock", "clock am", ... if it can be a time of day |
    | choice | args = label and value |
    | given | args = answer and condition |
    | cases | args = rows of a value and its condition |
    | side | args = limit; name = "+" or "-" |
    | list, set, cup, cap, setminus, apply, text | |

    Attributes:
        kind: Kind of the node, one of the tables above.
        args: Child nodes in order.
        value: Exact value of a number; None for other kinds.
        name: Name, literal, operator or unit phrase.
    """

    kind: str
    args: tuple[Node, ...] = ()
    value: Fraction | None = None
    name: str = ""


_STRUCTURES = """
    list tuple set cup cap setminus rel matrix row cases ratio apply choice text emptyset numbers side given
"""
STRUCTURES = frozenset(_STRUCTURES.split())
_FORMULAS = """
    num const var add mul div neg pow root func series abs floor ceil fact binom pm mp
    list tuple set cup cap setminus rel matrix row apply emptyset numbers
"""
FORMULAS = frozenset(_FORMULAS.split())  # what math-verify reads as we do


def number(value: int | Fraction, literal: str = "") -> Node:
    """Return the node of an exact number."""
    return Node("num", (), Fraction(value), literal)


def is_scalar(node: Node) -> bool:
    """True if a node is one (possibly symbolic) number, with or without a unit."""
    return node.kind not in STRUCTURES


def exact_value(node: Node) -> Fraction | None:
    """Return the value of a number with its sign that is no decimal, else None."""
    literal = node.args[0] if node.kind == "neg" else node
    if literal.kind != "num" or literal.name or literal.value is None:
        return None
    return literal.value if literal is node else -literal.value


def is_formula(node: Node) -> bool:
    """True if a tree holds nothing that math-verify would read differently.

    It skips words and units, takes f(x) and ∠ABC for products, and the last equation of a chain for all of it.
    """
    if node.kind == "var" and not node.name.isascii():
        return False
    if node.kind == "rel" and len(node.args) > 2 and "=" in node.name.split():
        return False
    return node.kind in FORMULAS and all(map(is_formula, node.args))
