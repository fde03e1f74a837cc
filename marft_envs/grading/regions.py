"""Sets of real numbers (intervals, unions, inequalities) as a sorted list of disjoint pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from marft_envs.grading.arithmetic import context, real
from marft_envs.grading.evaluation import evaluate
from marft_envs.grading.expression import Node, is_scalar
from marft_envs.grading.limits import NotReadableError

_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "!=": "!="}


class Piece(NamedTuple):
    """An interval; `closed` holds True for each end that belongs to it. A point has two equal closed ends."""

    low: Any
    low_closed: bool
    high: Any
    high_closed: bool


class Region(NamedTuple):
    """Disjoint sorted pieces, and the variable that an inequality named (empty for a bare interval)."""

    pieces: tuple[Piece, ...]
    variable: str = ""


def region(node: Node) -> Region | None:
    """Return the set of real numbers that an answer denotes, or None if it is none.

    Raises:
        NotReadableError: An end has no value, or depends on a variable.
    """
    reader = _READERS.get(node.kind)
    return reader(node) if reader else None


def same_region(first: Region, second: Region) -> bool:
    """Compare two real sets end by end."""
    if first.variable and second.variable and first.variable != second.variable:
        return False
    if len(first.pieces) != len(second.pieces):
        return False
    return all(
        one.low_closed == other.low_closed
        and one.high_closed == other.high_closed
        and _close(one.low, other.low)
        and _close(one.high, other.high)
        for one, other in zip(first.pieces, second.pieces, strict=True)
    )


def _close(first: Any, second: Any) -> bool:
    if first == second:
        return True
    if not (context().isfinite(first) and context().isfinite(second)):
        return False
    difference = abs(first - second)
    return bool(difference <= context().mpf(10) ** -38 * max(abs(first), abs(second)))


def _end(node: Node) -> Any:
    """Return the real value of an end."""
    if not is_scalar(node):
        raise NotReadableError("an end that is no number")
    value = real(evaluate(node, {}))
    if value.imag != 0:
        raise NotReadableError("a complex end")
    return value.real


def _line() -> Piece:
    return Piece(-context().inf, False, context().inf, False)


def _merged(pieces: list[Piece]) -> tuple[Piece, ...]:
    """Sort the pieces and merge those that overlap or touch."""
    kept: list[Piece] = []
    proper = [piece for piece in pieces if _is_proper(piece)]
    for piece in sorted(proper, key=lambda piece: (piece.low, not piece.low_closed)):
        last = kept[-1] if kept else None
        if last and (piece.low < last.high or (piece.low == last.high and (piece.low_closed or last.high_closed))):
            high, closed = max((last.high, last.high_closed), (piece.high, piece.high_closed))
            kept[-1] = Piece(last.low, last.low_closed, high, closed)
        else:
            kept.append(piece)
    return tuple(kept)


def _is_proper(piece: Piece) -> bool:
    return bool(piece.low < piece.high or (piece.low == piece.high and piece.low_closed and piece.high_closed))


def _common(first: tuple[Piece, ...], second: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """Return the intersection of two sets."""
    found = []
    for one in first:
        for other in second:
            low, low_open = max((one.low, not one.low_closed), (other.low, not other.low_closed))
            high, high_closed = min((one.high, one.high_closed), (other.high, other.high_closed))
            found.append(Piece(low, not low_open, high, high_closed))
    return _merged(found)


def _complement(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    low, low_closed = -context().inf, False
    found = []
    for piece in pieces:
        found.append(Piece(low, low_closed, piece.low, not piece.low_closed))
        low, low_closed = piece.high, not piece.high_closed
    found.append(Piece(low, low_closed, context().inf, False))
    return _merged(found)


def _interval(node: Node) -> Region | None:
    if len(node.args) != 2 or len(node.name) != 2 or not all(map(is_scalar, node.args)):
        return None
    low, high = _end(node.args[0]), _end(node.args[1])
    infinite = context().inf
    piece = Piece(low, node.name[0] == "[" and low != -infinite, high, node.name[1] == "]" and high != infinite)
    return Region((piece,)) if low <= high else None


def _points(node: Node) -> Region | None:
    ends = [_end(item) for item in node.args]
    return Region(_merged([Piece(end, True, end, True) for end in ends]))


def _joined(node: Node) -> Region | None:
    first, second = region(node.args[0]), region(node.args[1])
    if first is None or second is None:
        return None
    if node.kind == "cup":
        return Region(_merged([*first.pieces, *second.pieces]))
    other = second.pieces if node.kind == "cap" else _complement(second.pieces)
    return Region(_common(first.pieces, other))


def _relation(node: Node) -> Region | None:
    operators = node.name.split()
    if operators == ["in"]:
        inner = region(node.args[1])
        return inner and Region(inner.pieces, node.args[0].name)
    if any(operator not in _FLIPPED for operator in operators):
        return None
    places = [index for index, part in enumerate(node.args) if part.kind == "var"]
    if len(places) != 1 or len(operators) > 2:
        return None
    place = places[0]
    pieces: tuple[Piece, ...] = (_line(),)
    for index, operator in enumerate(operators):
        if place not in (index, index + 1):
            return None
        bound = _end(node.args[index + 1 if place == index else index])
        pieces = _common(pieces, _half_line(operator if place == index else _FLIPPED[operator], bound))
    return Region(pieces, node.args[place].name)


def _half_line(operator: str, bound: Any) -> tuple[Piece, ...]:
    line = _line()
    if operator == "!=":
        return _complement((Piece(bound, True, bound, True),))
    closed = operator.endswith("=")
    if operator.startswith("<"):
        return _merged([Piece(line.low, False, bound, closed)])
    return _merged([Piece(bound, closed, line.high, False)])


def _inequalities(node: Node) -> Region | None:
    """Read "x < 1 or x > 2" as a union; a comma or "and" is an intersection unless that is empty."""
    if not all(item.kind in ("rel", "cup", "tuple") for item in node.args) or node.args[0].kind != "rel":
        return None
    parts = [region(item) for item in node.args]
    if any(part is None for part in parts):
        return None
    found = [part for part in parts if part is not None]
    if len({part.variable for part in found}) != 1:
        return None
    union = _merged([piece for part in found for piece in part.pieces])
    common = found[0].pieces
    for part in found[1:]:
        common = _common(common, part.pieces)
    return Region(union if node.name == "or" or not common else common, found[0].variable)


_READERS: dict[str, Callable[[Node], Region | None]] = {
    "tuple": _interval, "set": _points, "cup": _joined, "cap": _joined, "setminus": _joined, "rel": _relation,
    "list": _inequalities, "numbers": lambda node: Region((_line(),)) if node.name == "R" else None,
    "emptyset": lambda node: Region(()),
}  # fmt: skip
