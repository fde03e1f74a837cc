"""Parsing of sets written as symbols, matrices, and systems of equations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from marft_envs.grading.atoms import index_text
from marft_envs.grading.expression import Node
from marft_envs.grading.limits import NotReadableError

if TYPE_CHECKING:
    from marft_envs.grading.answer_parser import AnswerParser

_NUMBER_SETS = frozenset("RZNQC")


def special_set(parser: AnswerParser) -> Node | None:
    r"""Read ``\mathbb{R}``, ``\emptyset``, a matrix, an ellipsis or a modifier of sets."""
    if parser.take("emptyset"):
        return Node("emptyset")
    if parser.take("..."):
        return Node("text", name="...")
    if parser.next.text == "mathbb":
        parser.index += 1
        braces = parser.take("{")
        letter = parser.take_any().text
        if braces:
            parser.expect("}")
        if letter not in _NUMBER_SETS:
            raise NotReadableError(f"unknown set {letter!r}")
        node = parser.node("numbers", name=letter)
        if parser.take("^"):
            node = parser.node("numbers", name=letter + "^" + index_text(parser))
        if parser.next.text == "-":
            parser.index += 1
            return parser.node("setminus", node, parser.sum())
        return node
    if parser.next.text == "begin":
        return matrix(parser)
    return None


def matrix(parser: AnswerParser) -> Node:
    r"""Read ``\begin{pmatrix} ... \end{pmatrix}``."""
    parser.index += 1
    name = index_text(parser)
    if "matrix" not in name and name not in ("array", "cases", "aligned"):
        raise NotReadableError(f"unknown environment {name!r}")
    if name == "array":
        index_text(parser)
    parser.enter()
    rows: list[Node] = []
    cells: list[Node] = []
    while not parser.take("end"):
        if parser.take("newline"):
            rows.append(parser.node("row", *cells))
            cells = []
        elif not parser.take("&"):
            cells.append(parser.element())
    if cells:
        rows.append(parser.node("row", *cells))
    index_text(parser)
    parser.depth -= 1
    if name in ("cases", "aligned") and all(len(row.args) == 1 for row in rows):
        return parser.joined([row.args[0] for row in rows])
    kind = "matrix" if name.lower() != "vmatrix" else "func"
    return parser.node(kind, *rows, name="det" if kind == "func" else "")
