"""Equivalence of two numbers or functions, with percent signs, degrees and units."""

from __future__ import annotations

import math
import struct
import sys
from fractions import Fraction

from marft_envs.grading.evaluation import (
    DIGITS,
    NUM_INTEGER_POINTS,
    NUM_POINTS,
    NUM_WIDE_POINTS,
    SURE_DIGITS,
    Value,
    evaluate,
    integer_point,
    is_negative_point,
    real,
    same_number,
    sample_point,
    variables,
)
from marft_envs.grading.expression import Node, number
from marft_envs.grading.limits import NotReadableError
from marft_envs.grading.units import Unit, conflict, unit
from marft_envs.grading.words import NO_WORDS, Words, agree, joined

LONG_DECIMAL_DIGITS = 12  # decimals of this many significant digits match the number that they round
_LEAST_SINGLE, _LARGEST_SINGLE = 2.0**-126, 2.0**127  # normal numbers of single precision
_HUNDREDTH = number(Fraction(1, 100))
_CHOICES = frozenset("ABCDEFGH")  # labels of multiple choice; also written in lower case
_DEGREES = unit("degrees")
_BARE = Unit("any")
_TURN, _RADIAN = _DEGREES.dimension, unit("radians").dimension


def same_scalar(first: Node, second: Node) -> bool | None:
    """Compare two scalars; None if they agree at all computable points but equality is not certain."""
    for one, other in ((first, second), (second, first)):
        # A name alone: the unit of "5 A" and the function of f(x) are names too.
        is_choice = one.kind == "var" and one.name in _CHOICES and other.kind in ("var", "const")
        if is_choice and other.name.upper() == one.name:
            return True  # a choice in lower case
    (one, one_unit), (other, other_unit) = measured(first), measured(second)
    if (one_unit or other_unit) and not agree(
        words_of(one_unit), words_of(other_unit), is_bare=not variables(one) and not variables(other)
    ):
        return False
    if "percent" in (one.kind, other.kind):
        return _same_percent(one, one_unit, other, other_unit)
    if "based" in (one.kind, other.kind):
        return _same_based(one, other)
    return _same_quantity(one, one_unit, other, other_unit)


def _same_quantity(one: Node, one_unit: Unit | None, other: Node, other_unit: Unit | None) -> bool | None:
    """Compare two amounts; one of the units may be missing."""
    if one_unit is None and other_unit is not None and other_unit.kind == "measure":
        one, one_unit = _trailing_unit(one) or (one, None)
    elif other_unit is None and one_unit is not None and one_unit.kind == "measure":
        other, other_unit = _trailing_unit(other) or (other, None)
    if one_unit is None or other_unit is None:
        same = same_value(one, other)
        if not same and _same_angle(one, one_unit, other, other_unit):
            return True  # 90° and π/2
        return same
    if {one_unit.dimension, other_unit.dimension} == {_TURN, _RADIAN}:
        return _same_angle(one, one_unit, other, other_unit)
    if conflict(one_unit, other_unit):
        return False
    if one_unit.size != other_unit.size and one_unit.dimension == other_unit.dimension:
        one = Node("mul", (one, number(one_unit.size)))
        other = Node("mul", (other, number(other_unit.size)))
    return same_value(one, other)


def measured(node: Node) -> tuple[Node, Unit | None]:
    """Split an expression from its unit, and from the words beside it."""
    if node.kind == "neg":
        inner, found = measured(node.args[0])
        # The percent sign stays outside: -7% is also -7.
        negative = Node("percent", (Node("neg", inner.args),)) if inner.kind == "percent" else Node("neg", (inner,))
        return negative, found
    if node.kind == "degree":
        return node.args[0], _DEGREES
    if node.kind == "quantity":
        if node.name.startswith("degree "):
            return node.args[0], Unit("measure", (("celsius" if node.name[-1] == "C" else "fahrenheit", 1),))
        stated = unit(node.name)
        inner, inside = measured(node.args[0])
        if inside is None:
            return inner, stated
        return inner, inside._replace(words=joined(stated.words, inside.words))  # 30° east, 鸡 5 只
    return node, None


def words_of(stated: Unit | None) -> Words:
    """Return the words beside an amount."""
    return NO_WORDS if stated is None else stated.words


def same_value(first: Node, second: Node) -> bool | None:
    """Compare two expressions without units; return None if undecided.

    Rational functions are compared exactly at fixed points, all others with 50 digits. Constants that agree
    are compared again with 120 digits. Equality at positive points only is undecided. Points where neither is real
    do not count, unless an expression contains i.
    """
    same = _same_function(first, second)
    if same is False and (_has_plain_log(first) or _has_plain_log(second)):
        return _same_function(_natural(first), _natural(second))
    return same


def _has_plain_log(node: Node) -> bool:
    return (node.kind == "func" and node.name == "log") or any(map(_has_plain_log, node.args))


def _natural(node: Node) -> Node:
    """Replace log without a base by the natural logarithm, its other meaning."""
    name = "ln" if node.kind == "func" and node.name == "log" else node.name
    return node._replace(args=tuple(map(_natural, node.args)), name=name)


def _same_function(first: Node, second: Node) -> bool | None:
    names = variables(first) | variables(second)
    if not names:
        return _same_constant(first, second)
    if _alternates(first) or _alternates(second) or (_rounds(first) and _rounds(second)):
        return _same_at_integers(first, second, names)
    agreed, needs_wide_points = 0, False
    for index in range(NUM_POINTS + NUM_WIDE_POINTS):
        if index == NUM_POINTS and not needs_wide_points:
            break
        point = sample_point(names, index)
        try:
            one, other = evaluate(first, point), evaluate(second, point)
            same = same_number(one, other)
        except NotReadableError:
            same = None
        if same is None and index == NUM_POINTS - 1:
            return None  # equal at positive points only
        if same is False and (_is_real(one) or _is_real(other) or _has_i(first) or _has_i(second)):
            return None if is_negative_point(index) else False
        needs_wide_points |= same is False  # neither is real here
        agreed += same is True
    return True if agreed >= NUM_POINTS - 1 else None


def _is_real(value: Value) -> bool:
    return getattr(value, "imag", 0) == 0


def _has_i(node: Node) -> bool:
    return (node.kind == "const" and node.name == "i") or any(map(_has_i, node.args))


def _same_at_integers(first: Node, second: Node, names: set[str]) -> bool | None:
    """Compare at integers only, for expressions such as (-1)^n, or ⌊n/2⌋ and ⌈(n-1)/2⌉."""
    agreed = 0
    for index in range(NUM_INTEGER_POINTS):
        point = integer_point(names, index)
        try:
            same = same_number(evaluate(first, point), evaluate(second, point))
        except NotReadableError:
            continue
        if same is False:
            return False
        if same:
            agreed += 1
    return True if agreed >= NUM_INTEGER_POINTS - 2 else None


def _alternates(node: Node) -> bool:
    """True if a negative number has a variable exponent."""
    if node.kind == "pow" and node.args[0].kind == "neg" and not variables(node.args[0]) and variables(node.args[1]):
        return True
    return any(map(_alternates, node.args))


def _rounds(node: Node) -> bool:
    return (node.kind in ("floor", "ceil") and bool(variables(node))) or any(map(_rounds, node.args))


def _same_constant(first: Node, second: Node) -> bool | None:
    one, other = evaluate(first, {}), evaluate(second, {})
    same = same_number(one, other)
    if same is not False and not (isinstance(one, Fraction) and isinstance(other, Fraction)):
        surely = evaluate(first, {}, SURE_DIGITS), evaluate(second, {}, SURE_DIGITS)
        same = same_number(*surely, SURE_DIGITS)
        if same is None and _is_tiny(one, surely[0]) and _is_tiny(other, surely[1]):
            return False
    if same is False:
        error = max(_float_error(first), _float_error(second))
        if error and abs(real(one) - real(other)) <= real(error):
            return True
        places, other_places = _decimal_places(first), _decimal_places(second)
        if (places is None) != (other_places is None):  # a long decimal stands for what it rounds; two are exact
            difference = abs(real(one) - real(other))
            return bool(difference <= real(Fraction(1, 10 ** (places or other_places or 0))))
    return same


def _is_tiny(value: Value, surer: Value) -> bool:
    """True if a small value is not a rounding error of zero, which would shrink at higher precision."""
    size = abs(real(surer))
    change = abs(real(value) - real(surer))
    return bool(size < 1 and change <= size * real(Fraction(1, 10 ** (DIGITS // 2))))


def _float_error(node: Node) -> Fraction:
    """Return the largest error of a literal that is printed from a binary float, or 0 if it is an exact decimal.

    0.30000000000000004 and 33.333333333333336 come from double precision, where an operation or two may have been
    rounded. 0.6666666865348816 is the single-precision number next to 2/3.
    """
    literal = (node.args[0] if node.kind == "neg" else node).name
    num_digits = sum(map(str.isdigit, literal.partition("e")[0].lstrip("0.")))
    if num_digits < LONG_DECIMAL_DIGITS:
        return Fraction(0)
    value = float(literal)
    if not sys.float_info.min < value < sys.float_info.max:
        return Fraction(0)
    is_printed = Fraction(literal) in (Fraction(repr(value)), Fraction(f"{value:.17g}"))
    if not is_printed or Fraction(literal) == Fraction(value):
        return Fraction(0)
    unit_in_last_place = Fraction(math.ulp(value))
    if _LEAST_SINGLE < value < _LARGEST_SINGLE and struct.unpack("f", struct.pack("f", value))[0] == value:
        return unit_in_last_place * 2**28  # half a unit of single precision
    return 2 * unit_in_last_place if num_digits >= 16 else Fraction(0)


def _decimal_places(node: Node) -> int | None:
    """Return the number of decimals of a literal of at least `LONG_DECIMAL_DIGITS` significant digits, else None."""
    literal = node.args[0] if node.kind == "neg" else node
    whole, point, decimals = literal.name.partition(".")
    digits = (whole + decimals).lstrip("0")
    return len(decimals) if point and digits.isdigit() and len(digits) >= LONG_DECIMAL_DIGITS else None


def _same_percent(one: Node, one_unit: Unit | None, other: Node, other_unit: Unit | None) -> bool | None:
    if one.kind == other.kind:
        return same_value(one.args[0], other.args[0])
    percent, other, stated = (one, other, other_unit) if one.kind == "percent" else (other, one, one_unit)
    if stated is not None and (stated.kind == "measure" or stated.words.nouns):
        return False
    return same_value(percent.args[0], other) or same_value(Node("mul", (percent.args[0], _HUNDREDTH)), other)


def _same_based(first: Node, second: Node) -> bool | None:
    """Compare numbers with a stated base; a bare number must show the same digits."""
    if first.kind == second.kind:
        if first.value == second.value:
            return first.name.lstrip("0") == second.name.lstrip("0")
        return 10 in (first.value, second.value) and first.args[0].value == second.args[0].value
    based, other = (first, second) if first.kind == "based" else (second, first)
    return other.kind == "num" and other.value is not None and str(other.value) == based.name.lstrip("0")


def _same_angle(one: Node, one_unit: Unit | None, other: Node, other_unit: Unit | None) -> bool | None:
    """Compare degrees with radians or with a bare number that may be radians."""
    units = (one_unit or _BARE, other_unit or _BARE)
    if _TURN not in (units[0].dimension, units[1].dimension):
        return False
    return same_value(_radians(one, units[0]), _radians(other, units[1]))


def _radians(node: Node, stated: Unit) -> Node:
    if stated.dimension != _TURN:
        return node
    return Node("degree", (Node("mul", (node, number(stated.size * 360))),))


def _trailing_unit(node: Node) -> tuple[Node, Unit] | None:
    """Read the letters of ``5m`` or ``5m/s`` as a unit, for comparison with an answer that has one."""
    if node.kind not in ("mul", "div") or len(node.args) != 2:
        return None
    amount, last = node.args
    phrase = _unit_factor(last)
    if phrase is None:
        return None
    if node.kind == "div":
        above = _unit_factor(amount.args[1]) if amount.kind == "mul" else None
        if not above:
            return None
        amount, phrase = amount.args[0], f"{above} / {phrase}"
    found = unit(phrase)
    return (amount, found) if found.kind == "measure" and not variables(amount) else None


def _unit_factor(node: Node) -> str | None:
    if node.kind == "var":
        return node.name
    if node.kind == "mul" and node.name:
        return node.name
    if node.kind == "pow" and node.args[0].kind in ("var", "mul") and node.args[1].value in (2, 3):
        inner = _unit_factor(node.args[0])
        return f"{inner} ^ {node.args[1].value}" if inner else None
    return None
