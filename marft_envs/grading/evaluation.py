"""Evaluation of an expression: exact fractions where possible, otherwise many digits, at fixed points."""

from __future__ import annotations

from fractions import Fraction
from zlib import crc32

from marft_envs.grading.arithmetic import OPERATIONS, Value, context, real
from marft_envs.grading.expression import Node
from marft_envs.grading.limits import NotReadableError

DIGITS = 50  # working precision of the first comparison
SURE_DIGITS = 120  # precision of the second, after the first found equality
NUM_POINTS = 4  # the last is negative; agreement by accident at four points is negligible
NUM_INTEGER_POINTS = 8


def variables(node: Node) -> set[str]:
    """Return the names of the variables of a tree."""
    if node.kind == "var":
        return {node.name}
    found: set[str] = set()
    for child in node.args:
        found |= variables(child)
    return found


def sample_point(names: set[str], index: int) -> dict[str, Fraction]:
    """Return fixed values for variables, equal in every process: 0.3 to 3.3, negated at the last point."""
    sign = -1 if index == NUM_POINTS - 1 else 1
    return {name: sign * Fraction(299 + crc32(_key(index, name)) % 3000, 997) for name in names}


def integer_point(names: set[str], index: int) -> dict[str, Fraction]:
    """Return fixed positive integers for variables, alternately even and odd by index."""
    return {name: Fraction(2 + 2 * (crc32(_key(index, name)) % 12) + index % 2) for name in names}


def _key(index: int, name: str) -> bytes:
    return f"{index}:{name}".encode("utf-8", "surrogatepass")


def evaluate(node: Node, point: dict[str, Fraction], digits: int = DIGITS) -> Value:
    """Return the value of a scalar tree.

    Args:
        node: Expression tree; units are ignored, percent is /100, degrees become radians.
        point: Exact value of each variable, by name.
        digits: Working precision in decimal digits where the value is not rational.

    Raises:
        NotReadableError: The tree has no value (division by zero, a structure inside).
        LimitExceededError: A number is beyond the bounds.
    """
    ctx = context()
    ctx.dps = digits
    try:
        return _value(node, point, ctx)
    except KeyError as error:
        raise NotReadableError(f"the variable {error} has no value") from error
    except (ZeroDivisionError, ValueError, OverflowError, TypeError, NotImplementedError) as error:
        raise NotReadableError(str(error)) from error
    except ctx.NoConvergence as error:
        raise NotReadableError(str(error)) from error


def same_number(first: Value, second: Value, digits: int = DIGITS) -> bool | None:
    """Compare two values computed with `digits` digits.

    Return None if they are too small to decide, or too large for their digits at `SURE_DIGITS`.
    """
    if isinstance(first, Fraction) and isinstance(second, Fraction):
        return first == second
    ctx = context()
    one, other = real(first), real(second)
    if not (ctx.isfinite(one) and ctx.isfinite(other)):
        return bool(one == other)
    epsilon = ctx.mpf(10) ** (12 - digits)
    scale = max(abs(one), abs(other))
    if abs(one - other) <= epsilon * scale:
        exact_integers = scale > ctx.mpf(10) ** (digits - 15)
        return None if exact_integers and digits == SURE_DIGITS else True
    if scale < epsilon:
        return True if first == 0 or second == 0 else None
    return False


def _value(node: Node, point: dict[str, Fraction], ctx: Value) -> Value:
    kind = node.kind
    if kind == "num":
        return node.value
    if kind == "var":
        return point[node.name]
    operation = OPERATIONS.get(kind)
    if operation is None:
        raise NotReadableError(f"{kind} has no value")
    if kind in ("func", "const"):
        return operation(ctx, node, *[_value(child, point, ctx) for child in node.args])
    return operation(ctx, *[_value(child, point, ctx) for child in node.args])
