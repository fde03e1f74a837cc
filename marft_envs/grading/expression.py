"""The tree that answers are read into."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple


class Node(NamedTuple):
    """A node of an answer.

    Scalar kinds: num (value; name = the literal if it was a decimal), var, const (pi e i oo), add, mul, div,
    neg, pow, root (radicand, index), func (name), abs, floor, ceil, fact, binom, pm, mp, percent, degree,
    quantity (name = unit phrase), based (name = digits, value = base).
    Structures: list, tuple (name = its two brackets), set, cup, cap, setminus, rel (name = operators joined
    by blanks), matrix of rows, ratio (name = "clock", "clock am", ... if it can be a time), apply, choice (label and
    value), text.

    Attributes:
        kind: What it is.
        args: Its parts.
        value: Exact value of a number.
        name: Name, literal, operator or unit.
    """

    kind: str
    args: tuple[Node, ...] = ()
    value: Fraction | None = None
    name: str = ""


_STRUCTURES = "list tuple set cup cap setminus rel matrix row ratio apply choice text emptyset numbers"
STRUCTURES = frozenset(_STRUCTURES.split())


def number(value: int | Fraction, literal: str = "") -> Node:
    """Return the node of an exact number."""
    return Node("num", (), Fraction(value), literal)


def is_scalar(node: Node) -> bool:
    """Say whether a node is one (possibly symbolic) number, with or without a unit."""
    return node.kind not in STRUCTURES
