"""Comparison of equations, assignments, congruences and inequalities in several variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from marft_envs.grading.arithmetic import real
from marft_envs.grading.evaluation import NUM_POINTS, evaluate, sample_point, variables
from marft_envs.grading.expression import Node, is_scalar
from marft_envs.grading.limits import NotReadableError

Equality = Callable[[Node, Node], bool | None]
_APPROXIMATION = Fraction(1, 100)  # largest relative error for A ≈ B to count as rounding
_ORDER = {"<": 1, "<=": 1, ">": -1, ">=": -1}


def is_assignment(node: Node) -> bool:
    """True if a node is ``x = value`` with a name on the left."""
    return node.kind == "rel" and node.name.split()[0] in ("=", "approx") and is_name(node.args[0])


def assigned_variable(node: Node) -> str:
    """Return the name on the left of an assignment."""
    return node.args[0].name


def is_name(node: Node) -> bool:
    """True if the left side only names the value on the right: x, f(x), AB, (x, y), a+b, P(A)."""
    if node.kind in ("var", "text", "apply"):
        return True
    if node.kind in ("tuple", "ratio"):
        return all(item.kind == "var" for item in node.args)
    return is_scalar(node) and bool(variables(node)) and not _has_number(node)


def assigned_value(relation: Node, other: Node, equal: Equality) -> Node | None:
    r"""Return the value that a relation asserts, for comparison with an answer that is not a relation.

    ``x = 5`` gives 5, ``x \in S`` gives S, ``2 + 3 = 5`` (if true) gives 5, ``22/7 \approx 3.14`` gives either.
    """
    operators = relation.name.split()
    first, last = relation.args[0], relation.args[-1]
    if operators == ["in"]:
        return last if is_name(first) else None
    if any(operator not in ("=", "approx") for operator in operators):
        return None
    parts = relation.args[1:] if is_name(first) else relation.args
    if operators[-1] == "approx" and len(parts) > 1:
        *exact, rounded = parts
        if not _is_rounding(exact[-1], rounded) or not _agree(exact, equal):
            return None
        return exact[-1] if equal(exact[-1], other) else rounded
    return parts[-1] if _agree(parts, equal) else None


def _agree(parts: Sequence[Node], equal: Equality) -> bool:
    return all(equal(part, parts[-1]) for part in parts[:-1])


def same_relation(first: Node, second: Node, equal: Equality) -> bool | None:
    """Compare two relations; return None if undecided."""
    one, other = first.name.split(), second.name.split()
    if "equiv" in one and one == other:
        return _same_congruence(first, second)
    if set(one) | set(other) <= {"=", "approx"}:
        return _same_equation(first, second, equal)
    if len(one) == len(other) == 1:
        if one == other == ["in"]:
            return equal(first.args[1], second.args[1])
        if one[0] in _ORDER and other[0] in _ORDER:
            return _same_inequality(first, second)
    return None if set(one) & set(other) else False


def _same_equation(first: Node, second: Node, equal: Equality) -> bool | None:
    if is_assignment(first) and is_assignment(second):
        heads = first.args[0], second.args[0]
        if heads[0] == heads[1] or "apply" in (heads[0].kind, heads[1].kind):
            return equal(first.args[-1], second.args[-1])
        if heads[0].kind == heads[1].kind == "tuple":
            return equal(heads[0], heads[1]) and equal(first.args[-1], second.args[-1])
    if len(first.args) != 2 or len(second.args) != 2:
        return equal(first.args[-1], second.args[-1]) and equal(first.args[0], second.args[0])
    factor = _constant_factor(first, second)
    return None if factor is None else factor != 0


def _same_inequality(first: Node, second: Node) -> bool | None:
    strict = ["=" not in node.name for node in (first, second)]
    factor = _constant_factor(first, second)
    if factor is None or factor == 0:
        return factor if factor is None else False
    direction = _ORDER[first.name] * _ORDER[second.name]
    return strict[0] == strict[1] and factor * direction > 0


def _constant_factor(first: Node, second: Node) -> int | None:
    """Return the sign of c if left - right of one relation is c times that of the other.

    Return 0 if the variables differ, and None if there is no such c. None does not imply that the relations differ.
    """
    if not all(is_scalar(part) for part in (*first.args, *second.args)):
        return None
    names = variables(first) | variables(second)
    if variables(first) != variables(second):
        return 0
    ratios = []
    for index in range(NUM_POINTS):
        point = sample_point(names, index)
        sides = []
        for relation in (first, second):
            left, right = (real(evaluate(part, point)) for part in relation.args)
            sides.append(left - right)
        if sides[1] == 0 or sides[0] == 0:
            return None
        ratios.append(sides[0] / sides[1])
    spread = max(abs(ratio - ratios[0]) for ratio in ratios)
    if spread > abs(ratios[0]) * Fraction(1, 10**30) or getattr(ratios[0], "imag", 0) != 0:
        return None
    return 1 if ratios[0].real > 0 else -1


def _same_congruence(first: Node, second: Node) -> bool | None:
    if len(first.args) != 3 or len(second.args) != 3:
        return None
    (_, rest, modulus), (_, other_rest, other_modulus) = first.args, second.args
    values = [evaluate(node, {}) for node in (rest, modulus, other_rest, other_modulus)]
    if values[1] != values[3] or values[1] == 0:
        return False
    return bool((values[0] - values[2]) % values[1] == 0)


def _is_rounding(exact: Node, rounded: Node) -> bool:
    if not (is_scalar(exact) and is_scalar(rounded)) or variables(exact) or variables(rounded):
        return False
    try:
        one, other = real(evaluate(exact, {})), real(evaluate(rounded, {}))
    except NotReadableError:
        return False
    return bool(abs(one - other) <= abs(one) * real(_APPROXIMATION))


def _has_number(node: Node) -> bool:
    return node.kind == "num" or any(map(_has_number, node.args))
