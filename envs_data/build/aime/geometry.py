"""Templates of AIME-style geometry problems."""

import math
import random
from fractions import Fraction

from envs_data.build.aime.counting import LOWEST
from envs_data.build.aime.problem_draft import contest
from envs_data.build.draft import Draft
from envs_data.build.math.geometry import TRIPLES
from envs_data.build.math.latex import frac, point


def _cevian(rng: random.Random) -> Draft:
    while True:
        b, c, m, n = rng.randint(5, 20), rng.randint(5, 20), rng.randint(2, 9), rng.randint(2, 9)
        if abs(b - c) < m + n < b + c:
            break
    a = m + n
    square = Fraction(b * b * m + c * c * n, a) - m * n
    return contest(
        (b, c, m, n),
        rf"In triangle $ABC$, $AB = {c}$ and $AC = {b}$. Point $D$ lies on $\overline{{BC}}$ with $BD = {m}$ "
        rf"and $DC = {n}$. The value of $AD^2$ {LOWEST}",
        r"By Stewart's theorem $AC^2 \cdot BD + AB^2 \cdot DC = BC(AD^2 + BD \cdot DC)$. So $AD^2 = "
        rf"\frac{{{b * b} \cdot {m} + {c * c} \cdot {n}}}{{{a}}} - {m * n} = "
        rf"\frac{{{square.numerator}}}{{{square.denominator}}}$, and $m + n$ is",
        square.numerator + square.denominator,
    )


def _inscribed_square(rng: random.Random) -> Draft:
    a, b, c = rng.choice(TRIPLES)
    k = rng.randint(1, 4)
    a, b, c = a * k, b * k, c * k
    side = Fraction(a * b * c, a * b + c * c)
    return contest(
        (a, b),
        f"A square is inscribed in a right triangle with legs ${a}$ and ${b}$ so that one side of the "
        rf"square lies on the hypotenuse. The side length of the square {LOWEST}",
        rf"The hypotenuse is ${c}$ and the height on it is $\frac{{{a} \cdot {b}}}{{{c}}} = "
        rf"{frac(Fraction(a * b, c))}$. By similar triangles the side $s$ satisfies $\frac{{s}}{{{c}}} + "
        rf"\frac{{s}}{{h}} = 1$, so "
        rf"$s = \frac{{ch}}{{c + h}} = \frac{{{side.numerator}}}{{{side.denominator}}}$. Then $m + n$ is",
        side.numerator + side.denominator,
    )


def _box_from_faces(rng: random.Random) -> Draft:
    a, b, c = sorted(rng.sample(range(3, 16), 3))
    return contest(
        (a, b, c),
        f"The faces of a rectangular box have areas ${a * b}$, ${b * c}$ and ${a * c}$. Find the square of "
        rf"the length of its space diagonal.",
        f"If the edges are $x < y < z$, the product of the three areas is $(xyz)^2 = {(a * b * c) ** 2}$, "
        f"so the volume is ${a * b * c}$. Dividing it by each area gives the edges ${a}$, ${b}$ and ${c}$. "
        rf"The square of "
        rf"the diagonal is ${a}^2 + {b}^2 + {c}^2$, that is",
        a * a + b * b + c * c,
    )


def _tangent_circles(rng: random.Random) -> Draft:
    r, s, gap = rng.randint(2, 14), rng.randint(2, 14), rng.randint(0, 10)
    while r == s:
        s = rng.randint(2, 14)
    distance = r + s + gap
    square = distance * distance - (r - s) ** 2
    return contest(
        (*sorted((r, s)), gap),
        f"Two circles with radii ${r}$ and ${s}$ have centers ${distance}$ apart. A line touches both "
        rf"circles at points $P$ and $Q$, with both circles on the same side of the line. Find $PQ^2$.",
        "Draw the parallel to the line through the center of the smaller circle. With the line of centers "
        f"it forms a right triangle with hypotenuse ${distance}$ and one leg ${abs(r - s)}$, and the other "
        rf"leg "
        rf"equals $PQ$. So $PQ^2 = {distance}^2 - {abs(r - s)}^2$, which is",
        square,
    )


def _lattice_points(rng: random.Random) -> Draft:
    a = rng.randint(8, 40)
    c, d = rng.randint(2, a - 1), rng.randint(2, 30)
    double = a * d
    edge = a + math.gcd(c, d) + math.gcd(a - c, d)
    inside = (double - edge + 2) // 2
    return contest(
        (a, c, d),
        "How many points with integer coordinates lie strictly inside the triangle with vertices "
        rf"${point(0, 0)}$, ${point(a, 0)}$ and ${point(c, d)}$?",
        rf"The area is $\frac{{{a} \cdot {d}}}{{2}} = {frac(Fraction(double, 2))}$. On the sides lie ${a} + "
        rf"\gcd({c}, {d}) + \gcd({a - c}, {d}) = {edge}$ lattice points. By Pick's theorem the number of "
        rf"inner points is "
        rf"${frac(Fraction(double, 2))} - \frac{{{edge}}}{{2}} + 1$, which is",
        inside,
    )


def _isosceles_trapezoid(rng: random.Random) -> Draft:
    x, h, leg = rng.choice(TRIPLES)
    if rng.random() < 0.5:
        x, h = h, x
    top = rng.randint(3, 30)
    return contest(
        (x, h, top),
        f"An isosceles trapezoid has parallel sides ${top}$ and ${top + 2 * x}$ and legs of length ${leg}$. "
        rf"Find its area.",
        f"The longer base exceeds the shorter one by ${2 * x}$, so each leg is the hypotenuse of a right "
        rf"triangle with one leg ${x}$. The height is $\sqrt{{{leg}^2 - {x}^2}} = {h}$, and the area is "
        rf"$\frac{{{top} + {top + 2 * x}}}{{2}} \cdot {h}$, that is",
        (top + x) * h,
    )


def _power_of_point(rng: random.Random) -> Draft:
    pa, ab, pc = rng.randint(3, 15), rng.randint(2, 25), rng.randint(2, 14)
    power = pa * (pa + ab)
    pd = Fraction(power, pc)
    while pd <= pc:
        pc = rng.randint(2, 14)
        pa = rng.randint(3, 15)
        power = pa * (pa + ab)
        pd = Fraction(power, pc)
    cd = pd - pc
    return contest(
        (pa, ab, pc),
        "From a point $P$ outside a circle two lines are drawn. The first meets the circle at $A$ and then "
        f"at $B$, with $PA = {pa}$ and $AB = {ab}$. The second meets it at $C$ and then at $D$, with $PC = "
        rf"{pc}$. The length "
        rf"$CD$ {LOWEST}",
        rf"The power of the point $P$ is $PA \cdot PB = {pa} \cdot {pa + ab} = {power}$. So $PD = "
        rf"\frac{{{power}}}{{{pc}}}$ and $CD = \frac{{{power}}}{{{pc}}} - {pc} = "
        rf"\frac{{{cd.numerator}}}{{{cd.denominator}}}$. Then $m + n$ is",
        cd.numerator + cd.denominator,
    )


def _folded_rectangle(rng: random.Random) -> Draft:
    width, length = rng.randint(3, 15), rng.randint(5, 30)
    while length <= width:
        length = rng.randint(5, 30)
    x = Fraction(length * length + width * width, 2 * length)
    area = x * width / 2
    return contest(
        (width, length),
        f"A rectangular sheet of paper $ABCD$ with $AB = {length}$ and $BC = {width}$ is folded along the "
        rf"diagonal $\overline{{AC}}$. The area of the triangle where the paper lies double {LOWEST}",
        "The double part is an isosceles triangle with base $AC$ and legs $x$ on the long sides. The right "
        rf"triangle left over has legs ${width}$ and ${length} - x$ and hypotenuse $x$, so "
        f"$x^2 = ({length} - x)^2 + {width}^2$ and $x = {frac(x)}$. The height on this leg is ${width}$, so "
        rf"the area is $\frac{{1}}{{2}} \cdot {frac(x)} \cdot {width} = "
        rf"\frac{{{area.numerator}}}{{{area.denominator}}}$. Then $m + n$ is",
        area.numerator + area.denominator,
    )


TEMPLATES = (
    _cevian,
    _inscribed_square,
    _box_from_faces,
    _tangent_circles,
    _lattice_points,
    _isosceles_trapezoid,
    _power_of_point,
    _folded_rectangle,
)
