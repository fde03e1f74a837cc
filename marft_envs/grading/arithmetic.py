"""Bounded arithmetic: exact fractions where possible, otherwise mpmath numbers of this thread's context."""

from __future__ import annotations

import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from marft_envs.grading.expression import Node
from marft_envs.grading.limits import (
    MAX_BITS,
    MAX_EXPONENT,
    MAX_FACTORIAL,
    LimitExceededError,
    NotReadableError,
)

Value = Any  # Fraction, or a number of the thread's mpmath context
MAX_MAGNITUDE_BITS = 64 * MAX_EXPONENT  # bound on real numbers: a 64-bit base to the power MAX_EXPONENT
MAX_ARGUMENT_BITS = 24  # the digits needed for sin and exp grow with the length of the argument
_local = threading.local()  # mpmath.mp is global state: eight threads sharing it gave wrong verdicts


def context() -> Any:
    """Return the mpmath context of this thread."""
    if not hasattr(_local, "context"):
        import mpmath  # type: ignore[import-untyped]  # lazy: saves `import marft_envs` 60 ms

        _local.context = mpmath.MPContext()
    return _local.context


def real(value: Value) -> Any:
    """Convert a value to a number of this thread's mpmath context."""
    return context().mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else value


def _bounded(value: Value) -> Value:
    if isinstance(value, Fraction) and value.numerator.bit_length() + value.denominator.bit_length() > MAX_BITS:
        raise LimitExceededError(f"an exact number of more than {MAX_BITS} bits")
    return value


def _pair(first: Value, second: Value) -> tuple[Value, Value]:
    """Return two values of the same type: both exact or both real."""
    exact = isinstance(first, Fraction)
    if exact == isinstance(second, Fraction):
        return first, second
    return (real(first), second) if exact else (first, real(second))


def _add(ctx: Any, first: Value, second: Value) -> Value:
    one, other = _pair(first, second)
    return _bounded(one + other)


def _multiply(ctx: Any, first: Value, second: Value) -> Value:
    if first == 0 and isinstance(first, Fraction) and _finite(ctx, second):
        return first
    one, other = _pair(first, second)
    return _bounded(one * other)


def _finite(ctx: Any, value: Value) -> bool:
    return isinstance(value, Fraction) or bool(ctx.isfinite(value))


def _divide(ctx: Any, first: Value, second: Value) -> Value:
    one, other = _pair(first, second)
    return _bounded(one / other)


def _power(ctx: Any, base: Value, exponent: Value) -> Value:
    if isinstance(exponent, Fraction) and exponent.denominator == 1:
        power = exponent.numerator
        if isinstance(base, Fraction):
            bits = base.numerator.bit_length() + base.denominator.bit_length()
            if base in (0, 1, -1) or bits * abs(power) <= MAX_BITS:
                return base**power if base not in (1, -1) else (base if power % 2 else Fraction(1))
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


def _modest(ctx: Any, value: Any) -> Any:
    """Return a value; refuse magnitudes beyond `MAX_MAGNITUDE_BITS`, large or small."""
    if ctx.isfinite(value) and value and abs(ctx.mag(value)) > MAX_MAGNITUDE_BITS:
        raise LimitExceededError("a number beyond all bounds")
    return value


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
    if isinstance(degree, Fraction) and degree.denominator == 1 and 2 <= degree <= 1000:
        index = degree.numerator
        if isinstance(radicand, Fraction):
            sign = -1 if radicand < 0 and index % 2 else 1
            if sign * radicand >= 0:
                root = exact_root(sign * radicand, index)
                if root is not None:
                    return sign * root
                return sign * ctx.root(real(sign * radicand), index)
            return ctx.root(ctx.mpc(real(radicand)), index)
        return ctx.root(radicand, index)
    return _power(ctx, radicand, _divide(ctx, Fraction(1), degree))


def _factorial(ctx: Any, value: Value) -> Value:
    if isinstance(value, Fraction) and value.denominator == 1:
        if not 0 <= value <= MAX_FACTORIAL:
            raise LimitExceededError(f"a factorial beyond {MAX_FACTORIAL}")
        return Fraction(_product(1, value.numerator))
    if abs(value) > MAX_FACTORIAL:
        raise LimitExceededError(f"a factorial beyond {MAX_FACTORIAL}")
    return ctx.gamma(real(value) + 1)


def _product(low: int, high: int) -> int:
    result = 1
    for factor in range(low, high + 1):
        result *= factor
    return result


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
    if not isinstance(value, Fraction):
        if ctx.mag(value) > 4 * ctx.dps or getattr(value, "imag", 0) != 0:
            raise NotReadableError("no integer part")
        nearest = ctx.nint(value)
        if value != nearest and abs(value - nearest) < ctx.mpf(10) ** (12 - ctx.dps):
            raise NotReadableError("too close to an integer")
        return Fraction(int(ctx.ceil(value) if up else ctx.floor(value)))
    whole = value.numerator // value.denominator
    return Fraction(whole + (up and value.denominator != 1))


def _constant(ctx: Any, node: Node) -> Value:
    return {"pi": ctx.pi, "e": ctx.e, "i": ctx.j, "oo": ctx.inf}[node.name] * 1


def _function(ctx: Any, node: Node, *args: Value) -> Value:
    name = node.name
    if name in ("max", "min"):
        if not all(isinstance(arg, Fraction) for arg in args):
            raise NotReadableError("extremum of irrational numbers")
        return max(args) if name == "max" else min(args)
    if name in _LOGARITHMS and len(args) == 1:
        return _LOGARITHMS[name](ctx, real(args[0]))
    if name == "log_" and len(args) == 2:
        return _log(ctx, real(args[0])) / _log(ctx, real(args[1]))
    function = _FUNCTIONS.get(name)
    if function is None or len(args) != 1:
        raise NotReadableError(f"unknown function {name!r} of {len(args)} arguments")
    argument = real(args[0])
    if ctx.isfinite(argument) and argument and ctx.mag(argument) > MAX_ARGUMENT_BITS:
        raise LimitExceededError("the argument of a function is too large")
    return function(ctx, argument)


def _log(ctx: Any, value: Any) -> Any:
    if value == 0:
        raise ZeroDivisionError("logarithm of zero")
    return ctx.log(value)


_LOGARITHMS: dict[str, Callable[[Any, Any], Any]] = {
    "ln": _log,
    "log": lambda ctx, x: _log(ctx, x) / ctx.log(10),
    "lg": lambda ctx, x: _log(ctx, x) / ctx.log(10),
}
_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sin": lambda ctx, x: ctx.sin(x), "cos": lambda ctx, x: ctx.cos(x), "tan": lambda ctx, x: ctx.tan(x),
    "cot": lambda ctx, x: ctx.cot(x), "sec": lambda ctx, x: ctx.sec(x), "csc": lambda ctx, x: ctx.csc(x),
    "sinh": lambda ctx, x: ctx.sinh(x), "cosh": lambda ctx, x: ctx.cosh(x), "tanh": lambda ctx, x: ctx.tanh(x),
    "coth": lambda ctx, x: ctx.coth(x), "arcsin": lambda ctx, x: ctx.asin(x),
    "arccos": lambda ctx, x: ctx.acos(x), "arctan": lambda ctx, x: ctx.atan(x),
    "arccot": lambda ctx, x: ctx.acot(x), "asin": lambda ctx, x: ctx.asin(x), "acos": lambda ctx, x: ctx.acos(x),
    "atan": lambda ctx, x: ctx.atan(x), "exp": lambda ctx, x: ctx.exp(x), "abs": lambda ctx, x: abs(x),
}  # fmt: skip
OPERATIONS: dict[str, Callable[..., Value]] = {
    "add": _add, "mul": _multiply, "div": _divide, "neg": lambda ctx, x: -x, "pow": _power, "root": _root,
    "fact": _factorial, "binom": _binomial, "abs": lambda ctx, x: abs(x),
    "floor": lambda ctx, x: _rounded(ctx, x, up=False), "ceil": lambda ctx, x: _rounded(ctx, x, up=True),
    "percent": lambda ctx, x: _divide(ctx, x, Fraction(100)),
    "degree": lambda ctx, x: _multiply(ctx, x, ctx.pi / 180), "quantity": lambda ctx, x: x,
    "based": lambda ctx, x: x, "const": _constant, "func": _function,
}  # fmt: skip
