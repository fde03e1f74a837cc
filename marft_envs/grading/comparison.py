"""Equivalence of two answer trees: True, False, or None if undecided.

Comparison is exact: a rounded decimal differs from a surd. Lists are unordered, tuples are ordered, and
brackets matter. A unit may be absent but must not conflict. A factor of 100 is ignored only next to a percent sign.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from marft_envs.grading.expression import Node, is_scalar
from marft_envs.grading.limits import MAX_COMPARISONS, MAX_SET_ITEMS, LimitExceededError, NotReadableError
from marft_envs.grading.regions import region, same_region
from marft_envs.grading.relations import (
    assigned_value,
    assigned_variable,
    is_assignment,
    same_relation,
)
from marft_envs.grading.scalars import same_scalar

Equality = Callable[[Node, Node], bool | None]


def compare(first: Node, second: Node) -> bool | None:
    """Compare two trees: True, False, or None if undecided.

    Raises:
        NotReadableError: A part has no value.
        LimitExceededError: Beyond the bounds.
    """
    return _Comparison().equal(first, second)


class _Comparison:
    """One comparison with a budget of `MAX_COMPARISONS` calls of `equal`."""

    def __init__(self) -> None:
        self.left = MAX_COMPARISONS

    def equal(self, first: Node, second: Node) -> bool | None:
        self.left -= 1
        if self.left < 0:
            raise LimitExceededError(f"more than {MAX_COMPARISONS} comparisons")
        if first == second:
            return True
        first, second = expanded(first), expanded(second)
        if is_scalar(first) and is_scalar(second):
            return same_scalar(first, second)
        kinds = {first.kind, second.kind}
        if "tuple" not in kinds or len(kinds) > 1:
            same = self.as_regions(first, second)
            if same is not None:
                return same
        return self.as_structures(first, second)

    def as_regions(self, first: Node, second: Node) -> bool | None:
        """Compare two real sets; return None unless both trees are real sets."""
        if "set" in (first.kind, second.kind) and first.kind in ("set", "list") and second.kind in ("set", "list"):
            return None
        try:
            one = region(first)
            other = region(second) if one is not None else None
        except NotReadableError:
            return None
        return same_region(one, other) if one is not None and other is not None else None

    def as_structures(self, first: Node, second: Node) -> bool | None:
        for one, other in ((first, second), (second, first)):
            handler = _HANDLERS.get((one.kind, other.kind))
            if handler:
                return handler(self, one, other)
        for one, other in ((first, second), (second, first)):
            opener = _OPENERS.get(one.kind)
            opened = opener(self, one, other) if opener else None
            if opened:
                return any(self.equal(part, other) for part in opened)
        return False

    def ordered(self, first: Sequence[Node], second: Sequence[Node]) -> bool | None:
        if len(first) != len(second):
            return False
        verdicts = []
        for one, other in zip(first, second, strict=True):
            verdict = self.equal(one, other)
            if verdict is False:
                return False
            verdicts.append(verdict)
        return None if None in verdicts else True

    def unordered(self, first: Sequence[Node], second: Sequence[Node]) -> bool | None:
        if len(first) != len(second):
            return False
        if len(first) > MAX_SET_ITEMS:
            raise LimitExceededError(f"more than {MAX_SET_ITEMS} elements")
        rest = list(second)
        undecided = False
        for one in first:
            verdicts = []
            for place, other in enumerate(rest):
                verdict = self.equal(one, other)
                if verdict:
                    del rest[place]
                    break
                verdicts.append(verdict)
            else:
                if None not in verdicts:
                    return False
                undecided = True
        return None if undecided else True

    def distinct(self, items: Sequence[Node]) -> list[Node]:
        if len(items) > MAX_SET_ITEMS:
            raise LimitExceededError(f"more than {MAX_SET_ITEMS} elements")
        kept: list[Node] = []
        for item in items:
            if not any(self.equal(item, other) for other in kept):
                kept.append(item)
        return kept


def expanded(node: Node) -> Node:
    """Replace an expression with ± or ∓ by the list of its two values.

    All upper signs give the first value, all lower signs the second.
    """
    if not _has_sign(node):
        return node
    if node.kind in ("list", "set"):
        items = [expanded(item) for item in node.args]
        flat = [part for item in items for part in (item.args if item.kind == "list" else (item,))]
        return node._replace(args=tuple(flat))
    if not is_scalar(node) and node.kind not in ("tuple", "rel"):
        return node
    return Node("list", (_signed(node, plus=True), _signed(node, plus=False)))


def _has_sign(node: Node) -> bool:
    return node.kind in ("pm", "mp") or any(map(_has_sign, node.args))


def _signed(node: Node, plus: bool) -> Node:
    args = tuple(_signed(child, plus) for child in node.args)
    if node.kind in ("pm", "mp"):
        second = args[1] if plus == (node.kind == "pm") else Node("neg", (args[1],))
        return Node("add", (args[0], second))
    return node._replace(args=args)


def _open_choice(self: _Comparison, node: Node, other: Node) -> Sequence[Node]:
    """Return the label and the value of a labelled choice: either may be the answer."""
    return node.args


def _open_relation(self: _Comparison, node: Node, other: Node) -> Sequence[Node]:
    value = assigned_value(node, other, self.equal)
    return () if value is None else (value,)


def _open_list(self: _Comparison, node: Node, other: Node) -> Sequence[Node]:
    """Return the first element of an "or" list of equal values, such as 1/2 or 0.5."""
    return node.args[:1] if node.name == "or" and len(self.distinct(node.args)) == 1 else ()


def _open_ratio(self: _Comparison, node: Node, other: Node) -> Sequence[Node]:
    return (Node("div", node.args),) if is_scalar(other) and len(node.args) == 2 else ()


def _open_text(self: _Comparison, node: Node, other: Node) -> Sequence[Node]:
    r"""Match a word with letters without ``\text``, which were read as a product named after them."""
    named = other.kind in ("mul", "var", "const") and other.name.lower() == node.name
    return (other,) if other.name and named else ()


_OPENERS: dict[str, Callable[[_Comparison, Node, Node], Sequence[Node]]] = {
    "choice": _open_choice, "rel": _open_relation, "list": _open_list, "ratio": _open_ratio, "text": _open_text,
}  # fmt: skip


def _lists(self: _Comparison, first: Node, second: Node) -> bool | None:
    one, other = first.args, second.args
    if "set" in (first.kind, second.kind):
        return self.unordered(self.distinct(one), self.distinct(other))
    if any(item.kind == "tuple" for item in one):
        return self.unordered(self.distinct(one), self.distinct(other))  # points: repetitions do not count
    named, bare = _names(one), _names(other)
    if (len(named) > 1) != (len(bare) > 1) and not (named and bare):
        return self.ordered(one, other)  # x=1, y=2 versus 1, 2
    return self.unordered(one, other)


def _names(items: Sequence[Node]) -> set[str]:
    return {assigned_variable(item) for item in items if is_assignment(item)}


def _tuples(self: _Comparison, first: Node, second: Node) -> bool | None:
    if len(first.args) == 2 and first.name != second.name:
        return False
    return self.ordered(first.args, second.args)


def _tuple_and_list(self: _Comparison, first: Node, second: Node) -> bool | None:
    if first.name != "()" and len(first.args) == 2:
        return False
    return self.ordered(first.args, second.args)


def _matrices(self: _Comparison, first: Node, second: Node) -> bool | None:
    if [len(row.args) for row in first.args] != [len(row.args) for row in second.args]:
        return False
    return self.ordered(_cells(first), _cells(second))


def _matrix_and_tuple(self: _Comparison, first: Node, second: Node) -> bool | None:
    if second.args and all(item.kind == "tuple" for item in second.args):
        rows = tuple(Node("row", item.args) for item in second.args)
        return _matrices(self, first, Node("matrix", rows))
    if len(first.args) == 1 or all(len(row.args) == 1 for row in first.args):
        return self.ordered(_cells(first), second.args)
    return False


def _cells(matrix: Node) -> list[Node]:
    return [cell for row in matrix.args for cell in row.args]


def _ratios(self: _Comparison, first: Node, second: Node) -> bool | None:
    if first.name and second.name:
        return _clocks(first, second)
    if len(first.args) != len(second.args):
        return False
    pairs = zip(first.args[1:], second.args[1:], strict=True)
    return _all(
        self.equal(Node("mul", (first.args[0], other)), Node("mul", (second.args[0], one))) for one, other in pairs
    )


def _clocks(first: Node, second: Node) -> bool:
    times = []
    halves = [node.name.removeprefix("clock").strip() for node in (first, second)]
    for node, half in zip((first, second), halves, strict=True):
        hour, *rest = [part.value or 0 for part in node.args]
        if half:
            hour = hour % 12 + (12 if half == "pm" else 0)
        times.append([hour, *rest, *[Fraction(0)] * (2 - len(rest))])
    if times[0] == times[1]:
        return True
    bare = next((time for time, half in zip(times, halves, strict=True) if not half), None)
    if bare is None or halves[0] == halves[1] or bare[0] > 12:
        return False
    return times[0][1:] == times[1][1:] and (times[0][0] - times[1][0]) % 12 == 0  # 3:45 versus 3:45 pm


def _all(verdicts: Iterable[bool | None]) -> bool | None:
    undecided = False
    for verdict in verdicts:
        if verdict is False:
            return False
        undecided |= verdict is None
    return None if undecided else True


def _relations(self: _Comparison, first: Node, second: Node) -> bool | None:
    return same_relation(first, second, self.equal)


def _texts(self: _Comparison, first: Node, second: Node) -> bool | None:
    return first.name == second.name


_HANDLERS: dict[tuple[str, str], Callable[[_Comparison, Node, Node], bool | None]] = {
    ("list", "list"): _lists, ("set", "set"): _lists, ("list", "set"): _lists, ("tuple", "tuple"): _tuples,
    ("tuple", "list"): _tuple_and_list, ("matrix", "matrix"): _matrices, ("matrix", "tuple"): _matrix_and_tuple,
    ("matrix", "list"): _matrix_and_tuple, ("ratio", "ratio"): _ratios, ("rel", "rel"): _relations,
    ("text", "text"): _texts, ("choice", "choice"): _tuples,
}  # fmt: skip
