"""Closed form: values of expressions, exact where they are rational, and their bounds."""

from __future__ import annotations

from fractions import Fraction

import pytest

from marft_envs.grading.answer_parser import read
from marft_envs.grading.evaluation import SURE_DIGITS, context, evaluate, exact_root, real, same_number
from marft_envs.grading.grade import decide_bounded
from marft_envs.grading.limits import LimitExceededError, NotReadableError


def value(text, **point):
    return evaluate(read(text).tree, {name: Fraction(number) for name, number in point.items()})


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        (r"2\frac{3}{4}", Fraction(11, 4)),
        ("0.1+0.2", Fraction(3, 10)),
        ("2^{-3}", Fraction(1, 8)),
        ("(-1)^{999999999}", -1),
        ("(-1)^{1000000000}", 1),
        ("0^5", 0),
        (r"\left(\frac{8}{27}\right)^{2/3}", Fraction(4, 9)),
        (r"\sqrt[3]{-27}", -3),
        (r"\sqrt{\frac{9}{16}}", Fraction(3, 4)),
        ("5!", 120),
        ("0!", 1),
        (r"\binom{5}{2}", 10),
        (r"\binom{2}{5}", 0),
        (r"\binom{-2}{3}", -4),
        (r"\binom{1/2}{2}", Fraction(-1, 8)),
        (r"\lfloor -\frac{7}{2} \rfloor", -4),
        (r"\lceil \frac{7}{2} \rceil", 4),
        (r"\lceil 3 \rceil", 3),
        (r"\lfloor \pi \rfloor", 3),
        (r"\lceil \sqrt{2} \rceil", 2),
        (r"25\%", Fraction(1, 4)),
        (r"0.1\overline{6}", Fraction(1, 6)),
        (r"0.\dot{1}4285\dot{7}", Fraction(1, 7)),
        ("0.333...", Fraction(1, 3)),
        ("1F_{16}", 31),
        (r"0 \cdot \pi", 0),
        (r"\max(1, 3, 2)", 3),
        (r"\min(1, 3, 2)", 1),
    ],
)
def test_rational_values_are_exact(text, exact):
    found = value(text)
    assert isinstance(found, Fraction)
    assert found == exact


@pytest.mark.parametrize(
    ("text", "other"),
    [
        (r"\sqrt{-4}", "2i"),
        (r"\sin 30^\circ", "1/2"),
        (r"\log 1000", "3"),
        (r"\log_2 8", "3"),
        (r"\ln e^2", "2"),
        (r"\sqrt[2.5]{32}", "4"),
        (r"|3+4i|", "5"),
        (r"\tan^{-1} 1", r"\pi/4"),
        (r"(-8)^{1/3}", r"1+\sqrt{3}i"),  # the principal root
    ],
)
def test_irrational_values(text, other):
    assert same_number(value(text), value(other))


def test_values_at_a_point():
    assert value("x^2-y", x=3, y=Fraction(1, 2)) == Fraction(17, 2)
    with pytest.raises(NotReadableError, match="variable 'x' has no value"):
        value("x")


@pytest.mark.parametrize("text", [r"\frac{1}{0}", r"\ln 0", r"\sin(1,2)", r"\lfloor i \rfloor", r"\max(\pi,1)"])
def test_what_has_no_value(text):
    with pytest.raises(NotReadableError):
        value(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2001!", "factorial beyond 2000"),
        ("(-1)!", "factorial beyond 2000"),
        ("2.5^{1000001}", "exponent beyond 1000000"),
        (r"\pi^{1000001}", "exponent beyond 1000000"),
        (r"\binom{10^{30}}{2001}", "binomial coefficient"),
        (r"\sin(10^9)", "argument of a function"),
        (r"e^{e^{20}}", "exponent beyond"),
        ("7^{3000} * 7^{3000} * 7^{3000}", "exact number of more than 20000 bits"),
    ],
)
def test_bounds(text, message):
    with pytest.raises(LimitExceededError, match=message):
        value(text)


@pytest.mark.parametrize("degree", [2, 3, 7])
@pytest.mark.parametrize("root", [0, 1, 2, 10**20 + 7])
def test_exact_roots(root, degree):
    assert exact_root(Fraction(root**degree, 3**degree), degree) == Fraction(root, 3)
    assert exact_root(Fraction(root**degree + 1), degree) in ((1,) if root == 0 else (None,))


def test_same_number_knows_what_its_digits_tell():
    context().dps = 50
    assert same_number(real(Fraction(1, 3)), real(Fraction(1, 3)) + context().mpf(10) ** -45)
    assert same_number(real(Fraction(1, 3)), real(Fraction(1, 3)) + context().mpf(10) ** -30) is False
    assert same_number(context().mpf(10) ** -60, context().mpf(10) ** -70) is None  # too small
    assert same_number(context().mpf(10) ** -60, Fraction(0))
    assert same_number(context().inf, context().inf)
    assert same_number(context().inf, -context().inf) is False
    large = context().mpf(10) ** 110
    assert same_number(large, large, SURE_DIGITS) is None  # integers that differ in lost digits


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (r"\sqrt{1/n}", r"\frac{1}{\sqrt{n}}", True),
        (r"\sqrt{x^3}", r"x\sqrt{x}", True),
        (r"\sqrt{(x-5)^3}", r"(x-5)\sqrt{x-5}", True),  # real beyond the first points only
        (r"\ln\frac{1}{1-x}", r"-\ln(1-x)", True),
        (r"\log_2\frac{x}{y}", r"\log_2 x-\log_2 y", True),
        (r"\sqrt{1/n}", r"-\frac{1}{\sqrt{n}}", False),
        (r"\sqrt{x-5}", r"-\sqrt{x-5}", False),
        (r"\sqrt{1-x}", r"\sqrt{x-1}", False),
        (r"\ln\frac1x", r"\ln x", False),
        ("ix", "-ix", False),
        (r"\sqrt{x^2}", "x", None),  # equal where x is positive
        (r"\ln|x|", r"\ln x", None),
    ],
)
def test_functions_are_compared_where_they_are_real(first, second, same):
    assert decide_bounded(first, second).same is same
    assert decide_bounded(second, first).same is same


@pytest.mark.parametrize(
    ("printed", "value", "same"),
    [
        ("0.30000000000000004", "0.3", True),
        ("-0.7999999999999999", r"-\frac{4}{5}", True),
        ("33.333333333333336", r"\frac{100}{3}", True),
        ("30.000000000000004", r"30\%", True),
        ("3.1415927410125732", r"\pi", True),  # single precision
        ("0.699999988079071", "0.7", True),
        ("0.30000000000000004", "0.3000000000001", False),
        ("33.333333333333336", "33.33", False),
        ("0.6666666865348816", "0.6666666", False),
        ("5.9604644775390625e-8", "5.960464e-8", False),  # 2^{-24} is exact
        ("0.1234567890123", "0.12345678901", False),
    ],
)
def test_printed_floats(printed, value, same):
    assert decide_bounded(printed, value).same is same
