"""Templates of algebra: linear and quadratic equations, functions, lines, sequences, logarithms."""

import math
import random
from fractions import Fraction

from envs_data.build.math.latex import (
    box,
    bracketed,
    frac,
    outside,
    point,
    poly,
    reduced,
    signed,
    square_part,
    surd,
)
from envs_data.build.math.template_registry import Problem, Subject

algebra = Subject("Algebra")


def _nonzero(rng: random.Random, low: int, high: int) -> int:
    return rng.choice([n for n in range(low, high + 1) if n])


@algebra(1)
def _linear_equation(rng: random.Random) -> Problem:
    x, a, c, b = _nonzero(rng, -12, 12), rng.randint(3, 12), rng.randint(1, 9), _nonzero(rng, -20, 20)
    while a == c:
        c = rng.randint(1, 9)
    d = (a - c) * x + b
    return Problem(
        (a, b, c, d),
        rf"Solve for $x$: ${poly((a, b))} = {poly((c, d))}$.",
        f"Subtracting ${poly((c, 0))}$ and ${bracketed(b)}$ from both sides gives ${poly((a - c, 0))} = "
        rf"{d - b}$, so "
        rf"$x = {box(x)}$.",
    )


@algebra(1)
def _evaluate(rng: random.Random) -> Problem:
    a, b, c, x = rng.randint(2, 6), _nonzero(rng, -9, 9), _nonzero(rng, -15, 15), _nonzero(rng, -6, 6)
    value = a * x * x + b * x + c
    return Problem(
        (a, b, c, x),
        rf"What is the value of ${poly((a, b, c))}$ when $x = {x}$?",
        rf"Substituting gives ${a} \cdot {bracketed(x)}^2 {signed(b)} \cdot {bracketed(x)} {signed(c)} = "
        rf"{a * x * x} {signed(b * x)} {signed(c)} = {box(value)}$.",
    )


@algebra(1)
def _slope(rng: random.Random) -> Problem:
    x1, y1, x2, y2 = (rng.randint(-9, 9) for _ in range(4))
    while x1 == x2 or y1 == y2:
        x1, y1, x2, y2 = (rng.randint(-9, 9) for _ in range(4))
    value = Fraction(y2 - y1, x2 - x1)
    return Problem(
        (x1, y1, x2, y2),
        rf"What is the slope of the line through ${point(x1, y1)}$ and ${point(x2, y2)}$?",
        rf"The slope is $\frac{{{y2} - {bracketed(y1)}}}{{{x2} - {bracketed(x1)}}} = "
        rf"\frac{{{y2 - y1}}}{{{x2 - x1}}} = {box(frac(value))}$.",
    )


@algebra(2)
def _system(rng: random.Random) -> Problem:
    x, y = _nonzero(rng, -8, 8), _nonzero(rng, -8, 8)
    a, b, c = rng.randint(2, 7), rng.randint(2, 7), rng.randint(2, 7)
    p, q = a * x + b * y, c * x - y
    top = p + b * q
    return Problem(
        (a, b, c, p, q),
        rf"Find the ordered pair $(x,y)$ that satisfies ${a}x + {b}y = {p}$ and ${c}x - y = {q}$.",
        rf"The second equation gives $y = {c}x {signed(-q)}$. Substituting into the first, "
        rf"${a}x + {b}({c}x {signed(-q)}) = {p}$, so ${a + b * c}x = {top}$ and $x = {x}$. Then "
        rf"$y = {c} \cdot {bracketed(x)} {signed(-q)} = {y}$, and the solution is ${box(point(x, y))}$.",
    )


@algebra(2)
def _expand(rng: random.Random) -> Problem:
    a, b, c, d = rng.randint(2, 7), _nonzero(rng, -9, 9), rng.randint(1, 7), _nonzero(rng, -9, 9)
    product = (a * c, a * d + b * c, b * d)
    return Problem(
        (a, b, c, d),
        rf"Expand the product $({poly((a, b))})({poly((c, d))})$.",
        rf"Multiplying each term of the first factor by each term of the second gives "
        rf"${poly((a * c, 0, 0))} {signed(a * d)}x {signed(b * c)}x {signed(b * d)} = {box(poly(product))}$.",
    )


@algebra(2)
def _equal_powers(rng: random.Random) -> Problem:
    base = rng.choice((2, 3, 5))
    outer, k, shift = rng.randint(2, 4), rng.randint(2, 5), _nonzero(rng, -6, 6)
    target = rng.randint(3, 15)
    value = Fraction(target - outer * shift, outer * k)
    return Problem(
        (base, outer, k, shift, target),
        rf"Find the value of $x$ for which ${base**outer}^{{{poly((k, shift))}}} = {base}^{{{target}}}$.",
        f"Since ${base**outer} = {base}^{outer}$, the left side is "
        rf"${base}^{{{outer}({poly((k, shift))})}}$. Equal powers of "
        rf"${base}$ have equal exponents, so ${poly((outer * k, outer * shift))} = {target}$ and "
        rf"$x = {box(frac(value))}$.",
    )


@algebra(3)
def _composition(rng: random.Random) -> Problem:
    a, b, c, d, n = (
        rng.randint(2, 6),
        _nonzero(rng, -9, 9),
        rng.randint(1, 4),
        _nonzero(rng, -9, 9),
        rng.randint(-5, 5),
    )
    inner = c * n * n + d
    value = a * inner + b
    return Problem(
        (a, b, c, d, n),
        rf"Let $f(x) = {poly((a, b))}$ and $g(x) = {poly((c, 0, d))}$. Compute $f(g({n}))$.",
        rf"First $g({n}) = {inner}$. Then $f({inner}) = {a} \cdot {bracketed(inner)} {signed(b)} = "
        rf"{box(value)}$.",
    )


@algebra(3)
def _linear_inequality(rng: random.Random) -> Problem:
    a, c, b, d = rng.randint(2, 9), rng.randint(2, 9), rng.randint(-15, 15), rng.randint(-15, 15)
    bound = Fraction(d - b, -(a + c))
    interval = rf"\left[{frac(bound)}, \infty\right)" if bound.denominator > 1 else rf"[{frac(bound)}, \infty)"
    return Problem(
        (a, b, c, d),
        rf"Find all real $x$ such that ${poly((-a, b))} \le {poly((c, d))}$. Express your answer in interval "
        rf"notation.",
        rf"Collecting terms gives ${poly((-a - c, 0))} \le {d - b}$. Dividing by ${-a - c}$ turns the "
        rf"inequality round: "
        rf"$x \ge {frac(bound)}$. In interval notation, $x \in {box(interval)}$.",
    )


@algebra(3)
def _distance(rng: random.Random) -> Problem:
    x1, y1, dx, dy = rng.randint(-9, 9), rng.randint(-9, 9), _nonzero(rng, -12, 12), _nonzero(rng, -12, 12)
    total = dx * dx + dy * dy
    return Problem(
        (x1, y1, dx, dy),
        f"Find the distance between ${point(x1, y1)}$ and ${point(x1 + dx, y1 + dy)}$. Express your answer "
        rf"in simplest "
        "radical form.",
        rf"The distance is $\sqrt{{{bracketed(dx)}^2 + {bracketed(dy)}^2}} = \sqrt{{{total}}}"
        + (
            f" = {box(surd(total))}$."
            if square_part(total)[0] > 1
            else f"$, which is already simplest: ${box(surd(total))}$."
        ),
    )


@algebra(3)
def _line_through(rng: random.Random) -> Problem:
    m, b, x1, x2 = (
        Fraction(_nonzero(rng, -7, 7), rng.randint(1, 3)),
        rng.randint(-9, 9),
        rng.randint(-4, 2) * 6,
        0,
    )
    x2 = x1 + rng.randint(1, 3) * 6
    y1, y2 = m * x1 + b, m * x2 + b
    return Problem(
        (m, b, x1, x2),
        f"The line through ${point(x1, y1)}$ and ${point(x2, y2)}$ can be written as $y = mx + b$. Find $mx "
        rf"+ b$ as an "
        "expression in $x$.",
        rf"The slope is $\frac{{{y2} - {bracketed(y1)}}}{{{x2} - {bracketed(x1)}}} = {frac(m)}$. From the "
        rf"first point, "
        rf"$b = {y1} - {bracketed(m)} \cdot {bracketed(x1)} = {b}$. The line is $y = {box(poly((m, b)))}$.",
    )


@algebra(4)
def _larger_root(rng: random.Random) -> Problem:
    a, p, q = rng.randint(1, 3), rng.randint(-8, 8), 0
    while True:
        c = rng.randint(-15, 15)
        q = p * p - a * c
        if q > 1 and square_part(q)[1] > 1:
            break
    outer, inner = square_part(q)
    shared = math.gcd(math.gcd(p, outer), a)
    top_p, top_q, bottom = p // shared, outer // shared, a // shared
    tail = rf"{'' if top_q == 1 else top_q}\sqrt{{{inner}}}"
    top = f"{top_p} + {tail}" if top_p else tail
    answer = top if bottom == 1 else rf"\frac{{{top}}}{{{bottom}}}"
    return Problem(
        (a, p, c),
        rf"What is the larger of the two real roots of ${poly((a, -2 * p, c))} = 0$?",
        rf"By the quadratic formula the roots are $\frac{{{2 * p} \pm \sqrt{{{4 * p * p} - "
        rf"{bracketed(4 * a * c)}}}}}"
        rf"{{{2 * a}}} = \frac{{{2 * p} \pm {surd(4 * q)}}}{{{2 * a}}}$. The larger one takes the plus sign: "
        rf"${box(answer)}$.",
    )


@algebra(4)
def _absolute_value(rng: random.Random) -> Problem:
    a, b, c = rng.randint(2, 6), _nonzero(rng, -9, 9), rng.randint(1, 14)
    low, high = Fraction(-c - b, a), Fraction(c - b, a)
    return Problem(
        (a, b, c),
        rf"Solve $|{poly((a, b))}| < {c}$. Express your answer in interval notation.",
        rf"The inequality means $-{c} < {poly((a, b))} < {c}$. Subtracting ${bracketed(b)}$ gives "
        rf"${-c - b} < {a}x < {c - b}$, and dividing by ${a}$ gives $x \in {box(point(low, high))}$.",
    )


@algebra(4)
def _arithmetic_sum(rng: random.Random) -> Problem:
    first, step, n = rng.randint(-10, 20), _nonzero(rng, -6, 9), rng.randint(12, 40)
    last = first + (n - 1) * step
    return Problem(
        (first, step, n),
        f"An arithmetic sequence has first term ${first}$ and common difference ${step}$. What is the sum "
        rf"of its first "
        rf"${n}$ terms?",
        rf"The last of these terms is ${first} + {n - 1} \cdot {bracketed(step)} = {last}$, so the sum is "
        rf"$\frac{{{n}}}{{2}}({first} {signed(last)}) = {box(n * (first + last) // 2)}$.",
    )


@algebra(4)
def _vertex(rng: random.Random) -> Problem:
    a, h, k = _nonzero(rng, -4, 4), _nonzero(rng, -7, 7), rng.randint(-15, 15)
    b, c = -2 * a * h, a * h * h + k
    return Problem(
        (a, h, k),
        rf"Find the vertex of the parabola $y = {poly((a, b, c))}$. Express your answer as an ordered pair.",
        f"Completing the square, ${poly((a, b, c))} = {'' if a == 1 else '-' if a == -1 else a}(x "
        rf"{signed(-h)})^2" + (f" {signed(k)}" if k else "") + rf"$. So the vertex is ${box(point(h, k))}$.",
    )


@algebra(5)
def _inverse_squares(rng: random.Random) -> Problem:
    b, c = _nonzero(rng, -9, 9), _nonzero(rng, -9, 9)
    while b * b - 4 * c <= 0 or abs(c) == 1:
        b, c = _nonzero(rng, -9, 9), _nonzero(rng, -9, 9)
    return Problem(
        (b, c),
        rf"Let $r$ and $s$ be the roots of ${poly((1, b, c))} = 0$. Compute $\frac{{1}}{{r^2}} + "
        rf"\frac{{1}}{{s^2}}$.",
        rf"By Vieta's formulas $r + s = {-b}$ and $rs = {c}$. Then $r^2 + s^2 = (r + s)^2 - 2rs = {b * b} "
        rf"{signed(-2 * c)} = {b * b - 2 * c}$, so the sum is "
        rf"$\frac{{r^2 + s^2}}{{(rs)^2}} = {reduced(b * b - 2 * c, c * c)}$.",
    )


@algebra(5)
def _quadratic_inequality(rng: random.Random) -> Problem:
    r, s, a = rng.randint(-9, 6), rng.randint(-5, 9), rng.randint(1, 3)
    while r >= s:
        r, s = rng.randint(-9, 6), rng.randint(-5, 9)
    return Problem(
        (a, r, s),
        f"Find all real $x$ for which ${poly((a, -a * (r + s), a * r * s))} > 0$. Express your answer in "
        rf"interval notation.",
        f"The left side factors as ${'' if a == 1 else a}{_factor(r)}{_factor(s)}$, which is a parabola "
        rf"that "
        rf"opens upward with zeros ${r}$ and ${s}$. It is positive outside the zeros: "
        rf"$x \in {box(outside(r, s))}$.",
    )


def _factor(root: int) -> str:
    return "x" if root == 0 else f"({poly((1, -root))})"


@algebra(5)
def _tangent_values(rng: random.Random) -> Problem:
    a, c = rng.randint(1, 6), rng.randint(1, 12)
    while square_part(a * c)[1] == 1 and a * c > 36:
        a, c = rng.randint(1, 6), rng.randint(1, 12)
    value = surd(4 * a * c)
    return Problem(
        (a, c),
        f"Find all real values of $k$ for which the equation ${'' if a == 1 else a}x^2 + kx + {c} = 0$ has "
        rf"exactly one real "
        "solution. Separate your answers with a comma.",
        rf"There is exactly one real solution when the discriminant is zero: $k^2 - 4 \cdot {a} \cdot {c} = "
        rf"0$, so "
        rf"$k^2 = {4 * a * c}$ and $k = {box(f'{value}, -{value}')}$.",
    )


@algebra(5)
def _log_equation(rng: random.Random) -> Problem:
    base, k, small = rng.choice((2, 3, 5)), rng.randint(2, 4), rng.randint(1, 8)
    power = base**k
    low, high = rng.choice([(d, power // d) for d in range(1, power) if power % d == 0 and d * d < power])
    gap, x = high - low, low + small
    second = "x" if gap == small else f"(x {signed(gap - small)})"
    return Problem(
        (base, k, gap, small),
        rf"Solve $\log_{base} (x {signed(-small)}) + \log_{base} {second} = {k}$.",
        rf"Put $t = x - {small}$. The equation becomes $t(t + {gap}) = {base}^{k} = {power}$, or "
        f"$t^2 + {'' if gap == 1 else gap}t - {power} = (t - {low})(t + {high}) = 0$. Logarithms need $t > "
        rf"0$, so $t = {low}$ and "
        rf"$x = {low} + {small} = {box(x)}$.",
    )
