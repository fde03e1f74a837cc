"""Sets of real numbers (intervals, unions, inequalities) as sorted disjoint intervals."""

from __future__ import annotations

from typing import Any, NamedTuple

from marft_envs.grading.evaluation import context, evaluate, real
from marft_envs.grading.expression import Node, is_scalar
from marft_envs.grading.limits import NotReadableError

_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "!=": "!="}


class RealInterval(NamedTuple):
    """Interval of real numbers, or a point: then `low` equals `high`, and both ends are closed.

    Attributes:
        low: Lower end, a number of the thread's mpmath context; may be -inf.
        low_closed: True if `low` belongs to the interval.
        high: Upper end; may be inf.
        high_closed: True if `high` belongs to the interval.
    """

    low: Any
    low_closed: bool
    high: Any
    high_closed: bool


Intervals = tuple[RealInterval, ...]


class RealSet(NamedTuple):
    """Set of real numbers.

    Attributes:
        intervals: Disjoint intervals in ascending order.
        variable: Name of the variable of an inequality; empty for a bare interval.
    """

    intervals: Intervals
    variable: str = ""


def real_set(node: Node) -> RealSet | None:
    """Return the set of real numbers that an answer denotes, or None if it is none.

    Raises:
        NotReadableError: An end has no value, or depends on a variable.
    """
    match node.kind:
        case "tuple":
            return _from_tuple(node)
        case "cup" | "cap" | "setminus":
            return _from_operation(node)
        case "rel":
            return _from_relation(node)
        case "list":
            return _from_inequalities(node)
        case "set":
            ends = [_end(item) for item in node.args]
            intervals = _merged([RealInterval(end, True, end, True) for end in ends])
        case "numbers" if node.name == "R":
            intervals = (_line(),)
        case "emptyset":
            intervals = ()
        case _:
            return None
    return RealSet(intervals)


def same_real_set(first: RealSet, second: RealSet) -> bool:
    """Compare two real sets end by end."""
    if first.variable and second.variable and first.variable != second.variable:
        return False
    if len(first.intervals) != len(second.intervals):
        return False
    return all(
        one.low_closed == other.low_closed
        and one.high_closed == other.high_closed
        and _close(one.low, other.low)
        and _close(one.high, other.high)
        for one, other in zip(first.intervals, second.intervals, strict=True)
    )


def _close(first: Any, second: Any) -> bool:
    """True if two ends agree in 38 of the 50 digits that they are computed with."""
    if first == second:
        return True
    if not (context().isfinite(first) and context().isfinite(second)):
        return False
    difference = abs(first - second)
    return bool(difference <= context().mpf(10) ** -38 * max(abs(first), abs(second)))


# ---------------------------------------------------------------------- from expression trees


def _end(node: Node) -> Any:
    """Return the real value of an end."""
    if not is_scalar(node):
        raise NotReadableError("an end that is no number")
    value = real(evaluate(node, {}))
    if value.imag != 0:
        raise NotReadableError("a complex end")
    return value.real


def _from_tuple(node: Node) -> RealSet | None:
    if len(node.args) != 2 or len(node.name) != 2 or not all(map(is_scalar, node.args)):
        return None
    low, high = _end(node.args[0]), _end(node.args[1])
    if not low <= high:
        return None
    infinity = context().inf  # is no member, whatever the bracket
    low_closed = node.name[0] == "[" and low != -infinity
    high_closed = node.name[1] == "]" and high != infinity
    return RealSet((RealInterval(low, low_closed, high, high_closed),))


def _from_operation(node: Node) -> RealSet | None:
    first, second = real_set(node.args[0]), real_set(node.args[1])
    if first is None or second is None:
        return None
    if node.kind == "cup":
        return RealSet(_merged([*first.intervals, *second.intervals]))
    other = second.intervals if node.kind == "cap" else _complement(second.intervals)
    return RealSet(_intersection(first.intervals, other))


def _from_relation(node: Node) -> RealSet | None:
    r"""Read ``x \in S``, or an inequality with one variable: x < 1, 0 < x <= 1."""
    operators = node.name.split()
    if operators == ["in"]:
        inner = real_set(node.args[1])
        return inner and RealSet(inner.intervals, node.args[0].name)
    if any(operator not in _FLIPPED for operator in operators):
        return None
    places = [index for index, part in enumerate(node.args) if part.kind == "var"]
    if len(places) != 1 or len(operators) > 2:
        return None
    place = places[0]
    intervals: Intervals = (_line(),)
    for index, operator in enumerate(operators):  # stands between args[index] and args[index + 1]
        if place == index:
            half_line = _half_line(operator, _end(node.args[index + 1]))
        elif place == index + 1:
            half_line = _half_line(_FLIPPED[operator], _end(node.args[index]))
        else:
            return None
        intervals = _intersection(intervals, half_line)
    return RealSet(intervals, node.args[place].name)


def _from_inequalities(node: Node) -> RealSet | None:
    """Read "x < 1 or x > 2" as a union; a comma or "and" is an intersection unless that is empty."""
    if not node.args or node.args[0].kind != "rel":
        return None
    if any(item.kind not in ("rel", "cup", "tuple") for item in node.args):
        return None
    parts = [part for part in map(real_set, node.args) if part is not None]
    if len(parts) != len(node.args) or len({part.variable for part in parts}) != 1:
        return None
    union = _merged([interval for part in parts for interval in part.intervals])
    common = parts[0].intervals
    for part in parts[1:]:
        common = _intersection(common, part.intervals)
    return RealSet(union if node.name == "or" or not common else common, parts[0].variable)


# ---------------------------------------------------------------------- operations on intervals


def _line() -> RealInterval:
    return RealInterval(-context().inf, False, context().inf, False)


def _half_line(operator: str, bound: Any) -> Intervals:
    """Return the numbers that are < bound, >= bound, ...; for != all but the bound."""
    if operator == "!=":
        return _complement((RealInterval(bound, True, bound, True),))
    is_closed = operator.endswith("=")
    if operator.startswith("<"):
        return _merged([RealInterval(-context().inf, False, bound, is_closed)])
    return _merged([RealInterval(bound, is_closed, context().inf, False)])


def _merged(intervals: list[RealInterval]) -> Intervals:
    """Drop the empty intervals, sort the others, and merge those that overlap or touch."""
    kept: list[RealInterval] = []
    nonempty = [
        one for one in intervals if one.low < one.high or (one.low == one.high and one.low_closed and one.high_closed)
    ]
    for one in sorted(nonempty, key=lambda interval: (interval.low, not interval.low_closed)):
        last = kept[-1] if kept else None
        if last and (one.low < last.high or (one.low == last.high and (one.low_closed or last.high_closed))):
            high, high_closed = max((last.high, last.high_closed), (one.high, one.high_closed))
            kept[-1] = RealInterval(last.low, last.low_closed, high, high_closed)
        else:
            kept.append(one)
    return tuple(kept)


def _intersection(first: Intervals, second: Intervals) -> Intervals:
    found = []
    for one in first:
        for other in second:
            low, low_open = max((one.low, not one.low_closed), (other.low, not other.low_closed))
            high, high_closed = min((one.high, one.high_closed), (other.high, other.high_closed))
            found.append(RealInterval(low, not low_open, high, high_closed))
    return _merged(found)


def _complement(intervals: Intervals) -> Intervals:
    low, low_closed = -context().inf, False
    found = []
    for one in intervals:
        found.append(RealInterval(low, low_closed, one.low, not one.low_closed))
        low, low_closed = one.high, not one.high_closed
    found.append(RealInterval(low, low_closed, context().inf, False))
    return _merged(found)
