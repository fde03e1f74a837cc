"""Bounded evaluation of an expression: exact fractions where possible, otherwise many digits of mpmath.

Functions are evaluated at fixed points. No value of a response can cost much: each operation checks its bound before
it computes.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple
from zlib import crc32

from marft_envs.grading.expression import Node
from marft_envs.grading.limits import (
    MAX_BITS,
    MAX_EXPONENT,
    MAX_FACTORIAL,
    LimitExceededError,
    NotReadableError,
)
from marft_envs.grading.units import unit
from marft_envs.grading.words import NO_WORDS

Value = Any  # Fraction, or a number of the thread's mpmath context
DIGITS = 50  # working precision of the first comparison
SURE_DIGITS = 120  # precision of the second, after the first found equality
NUM_POINTS = 4  # the last is negative; agreement by accident at four points is negligible
NUM_WIDE_POINTS = 12  # for functions that are not real at some of the first points
NUM_INTEGER_POINTS = 8
MAX_MAGNITUDE_BITS = 64 * MAX_EXPONENT  # bound on real numbers: a 64-bit base to the power MAX_EXPONENT
MAX_ARGUMENT_BITS = 24  # the digits needed for sin and exp grow with the length of the argument
_VECTOR_MARK = "→"
_local = threading.local()  # mpmath.mp is global state: eight threads sharing it gave wrong verdicts


class Vector(NamedTuple):
    """Vector of the space, the value of a marked name."""

    x: Value
    y: Value
    z: Value


def context() -> Any:
    """Return the mpmath context of this thread."""
    if not hasattr(_local, "context"):
        import mpmath  # type: ignore[import-untyped]  # lazy: saves `import marft_envs` 60 ms

        _local.context = mpmath.MPContext()
    return _local.context


def real(value: Value) -> Any:
    """Convert a value to a number of this thread's mpmath context.

    Raises:
        NotReadableError: The value is a vector.
    """
    if isinstance(value, Vector):
        raise NotReadableError("a vector is no number")
    return context().mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else value


def components(value: Value) -> tuple[Value, ...]:
    """Return the components of a vector, or a number alone."""
    return value if isinstance(value, Vector) else (value,)


def variables(node: Node) -> set[str]:
    """Return the names of the variables of a tree."""
    if node.kind == "var":
        return {node.name}
    found: set[str] = set()
    for child in node.args:
        found |= variables(child)
    return found


def as_vectors(node: Node, names: frozenset[str]) -> Node:
    """Mark the variables of these names as vectors; their values have three components."""
    if node.kind in ("var", "const") and node.name in names:
        return Node("var", name=_VECTOR_MARK + node.name)
    return node._replace(args=tuple(as_vectors(child, names) for child in node.args))


def sample_point(names: set[str], index: int) -> dict[str, Value]:
    """Return fixed values for variables, equal in every process: 0.3 to 3.3, negated at the last point.

    The wide points behind it are up to 105 or down to 0.04; half of them have positive and negative coordinates.
    """
    scale = Fraction(1)
    if index >= NUM_POINTS:
        scale = Fraction(32) if index % 2 else Fraction(1, 8)

    def coordinate(name: str) -> Fraction:
        number = _hash(index, name)
        is_negative = is_negative_point(index) and (index < NUM_POINTS or number & 1 << 16)
        return (-scale if is_negative else scale) * Fraction(299 + number % 3000, 997)

    return _point(names, coordinate)


def is_negative_point(index: int) -> bool:
    """True if coordinates of `sample_point(names, index)` may be negative."""
    return index == NUM_POINTS - 1 or (index >= NUM_POINTS and index % 4 > 1)


def integer_point(names: set[str], index: int) -> dict[str, Value]:
    """Return fixed positive integers for variables, alternately even and odd by index."""
    return _point(names, lambda name: Fraction(2 + 2 * (_hash(index, name) % 12) + index % 2))


def _point(names: set[str], coordinate: Callable[[str], Fraction]) -> dict[str, Value]:
    return {
        name: Vector(*(coordinate(f"{name}.{axis}") for axis in "xyz"))
        if name.startswith(_VECTOR_MARK)
        else coordinate(name)
        for name in names
    }


def _hash(index: int, name: str) -> int:
    return crc32(f"{index}:{name}".encode("utf-8", "surrogatepass"))


def evaluate(node: Node, point: dict[str, Value], digits: int = DIGITS) -> Value:
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


def _value(node: Node, point: dict[str, Value], ctx: Any) -> Value:
    kind = node.kind
    if kind == "num":
        return node.value
    if kind == "var":
        return point[node.name]
    if kind == "const":
        return {"pi": ctx.pi, "e": ctx.e, "i": ctx.j, "oo": ctx.inf}[node.name] * 1  # times 1: rounded to ctx.dps
    operation = _OPERATIONS.get(kind)
    if operation is None and kind not in _NAMED_OPERATIONS:
        raise NotReadableError(f"{kind} has no value")
    args = [_value(child, point, ctx) for child in node.args]
    if operation is None:
        return _NAMED_OPERATIONS[kind](ctx, node.name, args)
    return _vector_operation(ctx, node, args) if Vector in map(type, args) else operation(ctx, *args)


def same_number(first: Value, second: Value, digits: int = DIGITS) -> bool | None:
    """Compare two values computed with `digits` digits.

    Return None if they are too small to decide, or too large for their digits at `SURE_DIGITS`.
    """
    if isinstance(first, Fraction) and isinstance(second, Fraction):
        return first == second
    if isinstance(first, Vector) or isinstance(second, Vector):
        return _same_vector(first, second, digits)
    ctx = context()
    one, other = real(first), real(second)
    if not (ctx.isfinite(one) and ctx.isfinite(other)):
        return bool(one == other)
    epsilon = ctx.mpf(10) ** (12 - digits)  # relative error allowed: 12 digits are lost in computing
    scale = max(abs(one), abs(other))
    if abs(one - other) <= epsilon * scale:
        exceeds_digits = scale > ctx.mpf(10) ** (digits - 15)  # integers of this size may differ in lost digits
        return None if exceeds_digits and digits == SURE_DIGITS else True
    if scale < epsilon:
        return True if first == 0 or second == 0 else None
    return False


# ---------------------------------------------------------------------- operations


def _bounded(value: Value) -> Value:
    """Return a value; refuse exact numbers of more than `MAX_BITS` bits."""
    if isinstance(value, Fraction) and value.numerator.bit_length() + value.denominator.bit_length() > MAX_BITS:
        raise LimitExceededError(f"an exact number of more than {MAX_BITS} bits")
    return value


def _modest(ctx: Any, value: Any) -> Any:
    """Return a real or complex value; refuse magnitudes beyond `MAX_MAGNITUDE_BITS`, large or small."""
    if ctx.isfinite(value) and value and abs(ctx.mag(value)) > MAX_MAGNITUDE_BITS:
        raise LimitExceededError("a number beyond all bounds")
    return value


def _of_one_type(first: Value, second: Value) -> tuple[Value, Value]:
    """Return two values as both exact or both real; mpmath does not mix with fractions."""
    is_exact = isinstance(first, Fraction)
    if is_exact == isinstance(second, Fraction):
        return first, second
    return (real(first), second) if is_exact else (first, real(second))


def _add(ctx: Any, first: Value, second: Value) -> Value:
    one, other = _of_one_type(first, second)
    return _bounded(one + other)


def _multiply(ctx: Any, first: Value, second: Value) -> Value:
    if first == 0 and isinstance(first, Fraction) and (isinstance(second, Fraction) or ctx.isfinite(second)):
        return first  # stays exact
    one, other = _of_one_type(first, second)
    return _bounded(one * other)


def _divide(ctx: Any, first: Value, second: Value) -> Value:
    one, other = _of_one_type(first, second)
    return _bounded(one / other)


def _power(ctx: Any, base: Value, exponent: Value) -> Value:
    if isinstance(exponent, Fraction) and exponent.denominator == 1:
        power = exponent.numerator
        if isinstance(base, Fraction):
            if base in (1, -1):
                return base if power % 2 else Fraction(1)
            bits = base.numerator.bit_length() + base.denominator.bit_length()
            if base == 0 or bits * abs(power) <= MAX_BITS:
                return base**power
        if abs(power) > MAX_EXPONENT:
            raise LimitExceededError(f"an exponent beyond {MAX_EXPONENT}")
        return _modest(ctx, real(base) ** power)
    if isinstance(exponent, Fraction) and exponent.denominator <= 64 and isinstance(base, Fraction) and base >= 0:
        root = exact_root(base, exponent.denominator)
        if root is not None:
            return _power(ctx, root, Fraction(exponent.numerator))
    one, other = real(base), real(exponent)
    if abs(other) > MAX_EXPONENT:
        raise LimitExceededError(f"an exponent beyond {MAX_EXPONENT}")
    return _modest(ctx, one**other)


def exact_root(value: Fraction, degree: int) -> Fraction | None:
    """Return the rational root of a non-negative fraction, or None."""
    above, below = _integer_root(value.numerator, degree), _integer_root(value.denominator, degree)
    return Fraction(above, below) if above is not None and below is not None else None


def _integer_root(value: int, degree: int) -> int | None:
    if value < 2:
        return value
    if value.bit_length() <= degree:
        return None
    root = 1 << -(-value.bit_length() // degree)  # starts above the root: Newton's steps decrease
    while True:  # each step doubles the number of correct digits
        lower = ((degree - 1) * root + value // root ** (degree - 1)) // degree
        if lower >= root:
            return root if root**degree == value else None
        root = lower


def _root(ctx: Any, radicand: Value, degree: Value) -> Value:
    if not (isinstance(degree, Fraction) and degree.denominator == 1 and 2 <= degree <= 1000):
        return _power(ctx, radicand, _divide(ctx, Fraction(1), degree))
    index = degree.numerator
    if not isinstance(radicand, Fraction):
        return ctx.root(radicand, index)
    sign = -1 if radicand < 0 and index % 2 else 1  # an odd root of a negative number is real
    if sign * radicand < 0:
        return ctx.root(ctx.mpc(real(radicand)), index)
    root = exact_root(sign * radicand, index)
    return sign * (ctx.root(real(sign * radicand), index) if root is None else root)


def _factorial(ctx: Any, value: Value) -> Value:
    if isinstance(value, Fraction) and value.denominator == 1:
        if not 0 <= value <= MAX_FACTORIAL:
            raise LimitExceededError(f"a factorial beyond {MAX_FACTORIAL}")
        return Fraction(math.factorial(value.numerator))
    if abs(value) > MAX_FACTORIAL:
        raise LimitExceededError(f"a factorial beyond {MAX_FACTORIAL}")
    return ctx.gamma(real(value) + 1)


def _binomial(ctx: Any, above: Value, below: Value) -> Value:
    if isinstance(below, Fraction) and below.denominator == 1 and isinstance(above, Fraction):
        count = below.numerator
        if above.denominator == 1 and above >= 0:
            count = min(count, above.numerator - count)
        if count < 0:
            return Fraction(0)
        if count > MAX_FACTORIAL or above.numerator.bit_length() * count > 4 * MAX_BITS:
            raise LimitExceededError("a binomial coefficient beyond the bounds")
        result = Fraction(1)
        for index in range(count):
            result = result * (above - index) / (index + 1)
        return _bounded(result)
    if abs(above) > MAX_FACTORIAL or abs(below) > MAX_FACTORIAL:
        raise LimitExceededError("a binomial coefficient beyond the bounds")
    return ctx.binomial(real(above), real(below))


def _rounded(ctx: Any, value: Value, up: bool) -> Value:
    if isinstance(value, Fraction):
        return Fraction(math.ceil(value) if up else math.floor(value))
    if ctx.mag(value) > 4 * ctx.dps or getattr(value, "imag", 0) != 0:
        raise NotReadableError("no integer part")
    nearest = ctx.nint(value)
    if value != nearest and abs(value - nearest) < ctx.mpf(10) ** (12 - ctx.dps):
        raise NotReadableError("too close to an integer")
    return Fraction(int(ctx.ceil(value) if up else ctx.floor(value)))


_OPERATIONS: dict[str, Callable[..., Value]] = {
    "add": _add,
    "mul": _multiply,
    "div": _divide,
    "neg": lambda ctx, x: -x,
    "pow": _power,
    "root": _root,
    "fact": _factorial,
    "binom": _binomial,
    "abs": lambda ctx, x: abs(x),
    "floor": lambda ctx, x: _rounded(ctx, x, up=False),
    "ceil": lambda ctx, x: _rounded(ctx, x, up=True),
    "percent": lambda ctx, x: _divide(ctx, x, Fraction(100)),
    "degree": lambda ctx, x: _multiply(ctx, x, ctx.pi / 180),
    "based": lambda ctx, x: x,
}


# ---------------------------------------------------------------------- vectors


def _vector_operation(ctx: Any, node: Node, args: list[Value]) -> Value:
    """Return the value of an operation of which an argument is a vector."""
    kind, first, second = node.kind, args[0], args[-1]
    value: Value = None
    if kind == "neg":
        value = Vector(*(-part for part in first))
    elif kind == "abs":
        value = _root(ctx, _dot(ctx, first, first), Fraction(2))
    elif kind == "pow" and second == 2:
        value = _dot(ctx, first, first)
    elif isinstance(first, Vector) and isinstance(second, Vector):
        if kind == "add":
            value = Vector(*(_add(ctx, *parts) for parts in zip(first, second, strict=True)))
        elif kind == "mul":
            value = _cross(ctx, first, second) if node.name == "×" else _dot(ctx, first, second)
    elif kind == "add":
        value = next((arg for arg in args if isinstance(arg, Vector)), None) if 0 in args else None
    elif kind == "mul":
        factor, vector = (second, first) if isinstance(first, Vector) else (first, second)
        value = Vector(*(_multiply(ctx, factor, part) for part in vector))
    elif kind == "div" and isinstance(first, Vector):
        value = Vector(*(_divide(ctx, part, second) for part in first))
    if value is None:
        raise NotReadableError(f"{kind} of vectors has no value")
    return value


def _dot(ctx: Any, first: Vector, second: Vector) -> Value:
    x, y, z = (_multiply(ctx, *parts) for parts in zip(first, second, strict=True))
    return _add(ctx, _add(ctx, x, y), z)


def _cross(ctx: Any, first: Vector, second: Vector) -> Vector:
    def minor(one: int, other: int) -> Value:
        product, opposite = _multiply(ctx, first[one], second[other]), _multiply(ctx, first[other], second[one])
        return _add(ctx, product, -opposite)

    return Vector(minor(1, 2), minor(2, 0), minor(0, 1))


def _same_vector(first: Value, second: Value, digits: int) -> bool | None:
    """Compare component by component; the number 0 is also the zero vector."""
    zero = Vector(*[Fraction(0)] * 3)
    one, other = (zero if value == 0 else value for value in (first, second))
    if not (isinstance(one, Vector) and isinstance(other, Vector)):
        return False
    verdicts = [same_number(*parts, digits) for parts in zip(one, other, strict=True)]
    return False if False in verdicts else None if None in verdicts else True


# ---------------------------------------------------------------------- functions


def _unknown_function(ctx: Any, name: str, args: list[Value]) -> Fraction:
    """Return a value that depends on nothing but the function and its arguments.

    So two expressions with f agree if they do for any f.
    """
    numbers = chain.from_iterable(map(components, args))
    text = ", ".join(ctx.nstr(real(value), DIGITS // 2) for value in numbers)
    return Fraction(1 + _hash(len(args), f"{name}({text})"), 2**31)


def _function(ctx: Any, name: str, args: list[Value]) -> Value:
    """Return the value of a function by its name; `log_` has its base as the second argument."""
    if name in ("max", "min"):
        if not all(isinstance(arg, Fraction) for arg in args):
            raise NotReadableError("extremum of irrational numbers")
        return max(args) if name == "max" else min(args)
    if name == "log_" and len(args) == 2:
        return _log(ctx, real(args[0])) / _log(ctx, real(args[1]))
    function = _FUNCTIONS.get(name)
    if function is None or len(args) != 1:
        raise NotReadableError(f"unknown function {name!r} of {len(args)} arguments")
    argument = real(args[0])
    is_long = ctx.isfinite(argument) and argument and ctx.mag(argument) > MAX_ARGUMENT_BITS
    if is_long and name not in ("ln", "log", "lg"):
        raise LimitExceededError("the argument of a function is too large")
    return function(ctx, argument)


def _quantity(ctx: Any, name: str, args: list[Value]) -> Value:
    if unit(name).words != NO_WORDS:
        raise NotReadableError(f"words inside an expression: {name}")
    return args[0]


_NAMED_OPERATIONS: dict[str, Callable[[Any, str, list[Value]], Value]] = {
    "func": _function, "call": _unknown_function, "quantity": _quantity,
}  # fmt: skip


def _log(ctx: Any, value: Any) -> Any:
    if value == 0:
        raise ZeroDivisionError("logarithm of zero")
    return ctx.log(value)


_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "ln": _log, "log": lambda ctx, x: _log(ctx, x) / ctx.log(10), "lg": lambda ctx, x: _log(ctx, x) / ctx.log(10),
    "sin": lambda ctx, x: ctx.sin(x), "cos": lambda ctx, x: ctx.cos(x), "tan": lambda ctx, x: ctx.tan(x),
    "cot": lambda ctx, x: ctx.cot(x), "sec": lambda ctx, x: ctx.sec(x), "csc": lambda ctx, x: ctx.csc(x),
    "sinh": lambda ctx, x: ctx.sinh(x), "cosh": lambda ctx, x: ctx.cosh(x), "tanh": lambda ctx, x: ctx.tanh(x),
    "coth": lambda ctx, x: ctx.coth(x), "arcsin": lambda ctx, x: ctx.asin(x),
    "arccos": lambda ctx, x: ctx.acos(x), "arctan": lambda ctx, x: ctx.atan(x),
    "arccot": lambda ctx, x: ctx.acot(x), "asin": lambda ctx, x: ctx.asin(x), "acos": lambda ctx, x: ctx.acos(x),
    "atan": lambda ctx, x: ctx.atan(x), "exp": lambda ctx, x: ctx.exp(x), "abs": lambda ctx, x: abs(x),
}  # fmt: skip
