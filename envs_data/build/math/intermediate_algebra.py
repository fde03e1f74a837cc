"""Templates of intermediate algebra: polynomials, complex numbers, rational functions, inequalities, sums, conics."""

import math
import random
from fractions import Fraction

from envs_data.build.math.latex import (
    box,
    bracketed,
    complex_number,
    frac,
    outside,
    point,
    poly,
    signed,
    square_part,
    surd,
)
from envs_data.build.math.template_registry import Problem, Subject

intermediate_algebra = Subject("Intermediate Algebra")


def _nonzero(rng: random.Random, low: int, high: int) -> int:
    return rng.choice([n for n in range(low, high + 1) if n])


@intermediate_algebra(1)
def _complex_product(rng: random.Random) -> Problem:
    a, b, c, d = (_nonzero(rng, -7, 7) for _ in range(4))
    x, y = complex_number(a, b), complex_number(c, d)
    return Problem(
        (a, b, c, d),
        f"Compute $({x})({y})$. Express your answer in the form $a + bi$.",
        rf"Multiplying out and using $i^2 = -1$, the real part is ${bracketed(a)} \cdot {bracketed(c)} - "
        rf"{bracketed(b)} \cdot {bracketed(d)} = "
        rf"{a * c - b * d}$ and the imaginary part is ${bracketed(a)} \cdot {bracketed(d)} + {bracketed(b)} "
        rf"\cdot {bracketed(c)} = {a * d + b * c}$. "
        f"The product is ${box(complex_number(a * c - b * d, a * d + b * c))}$.",
    )


@intermediate_algebra(1)
def _remainder_theorem(rng: random.Random) -> Problem:
    coefficients = [_nonzero(rng, -5, 5), *(rng.randint(-9, 9) for _ in range(3))]
    r = rng.choice((-3, -2, -1, 1, 2, 3))
    values = [c * r**p for c, p in zip(coefficients, (3, 2, 1, 0), strict=True)]
    terms = " ".join([str(values[0]), *(signed(v) for v in values[1:])])
    return Problem(
        (*coefficients, r),
        rf"What is the remainder when ${poly(coefficients)}$ is divided by ${poly((1, -r))}$?",
        f"By the remainder theorem it is the value of the polynomial at $x = {r}$, which is ${terms} = "
        rf"{box(sum(values))}$.",
    )


@intermediate_algebra(1)
def _complex_size(rng: random.Random) -> Problem:
    a, b = _nonzero(rng, -12, 12), _nonzero(rng, -12, 12)
    total = a * a + b * b
    return Problem(
        (a, b),
        f"Compute $|{complex_number(a, b)}|$.",
        f"The absolute value is the square root of ${bracketed(a)}^2 + {bracketed(b)}^2 = {total}$, which "
        rf"is ${box(surd(total))}$.",
    )


@intermediate_algebra(2)
def _asymptote(rng: random.Random) -> Problem:
    a, b, c, d = _nonzero(rng, -9, 9), rng.randint(-9, 9), rng.randint(1, 6), _nonzero(rng, -9, 9)
    while a * d == b * c:
        d = _nonzero(rng, -9, 9)
    where, height = Fraction(-d, c), Fraction(a, c)
    return Problem(
        (a, b, c, d),
        rf"The graph of $y = \frac{{{poly((a, b))}}}{{{poly((c, d))}}}$ has one vertical and one horizontal "
        rf"asymptote. At what point do they "
        "intersect?",
        f"The denominator is zero at $x = {frac(where)}$, where the numerator is not, so this is the "
        rf"vertical asymptote. For large $|x|$ the "
        rf"quotient approaches $\frac{{{a}}}{{{c}}}$, so the horizontal asymptote is $y = {frac(height)}$. "
        rf"They meet at "
        rf"${box(point(where, height))}$.",
    )


@intermediate_algebra(2)
def _cube_from_sum(rng: random.Random) -> Problem:
    s, p = rng.randint(2, 12), _nonzero(rng, -12, 12)
    return Problem(
        (s, p),
        rf"If $x + y = {s}$ and $xy = {p}$, what is the value of $x^3 + y^3$?",
        rf"We have $x^3 + y^3 = (x + y)^3 - 3xy(x + y) = {s}^3 - 3 \cdot {bracketed(p)} \cdot {s} = {s**3} "
        rf"{signed(-3 * p * s)} = "
        rf"{box(s**3 - 3 * p * s)}$.",
    )


@intermediate_algebra(2)
def _rationalise(rng: random.Random) -> Problem:
    a, b = rng.randint(2, 9), rng.choice((2, 3, 5, 6, 7, 10, 11, 13))
    bottom = a * a - b
    top = rng.randint(1, 3) * abs(bottom)
    k = top // bottom
    whole, part = k * a, k
    text = f"{whole} - {'' if part == 1 else part}" if k > 0 else f"{'' if part == -1 else -part}"
    root = rf"\sqrt{{{b}}}"
    answer = f"{text}{root}" if k > 0 else rf"{text}{root} - {-whole}"
    return Problem(
        (a, b, top),
        rf"Simplify $\frac{{{top}}}{{{a} + {root}}}$ so that no radical is left in the denominator.",
        f"Multiplying numerator and denominator by ${a} - {root}$ makes the denominator ${a}^2 - {b} = "
        rf"{bottom}$. The result is "
        rf"$\frac{{{top}({a} - {root})}}{{{bottom}}} = {box(answer)}$.",
    )


@intermediate_algebra(3)
def _division(rng: random.Random) -> Problem:
    q = [rng.randint(1, 4), rng.randint(-6, 6), rng.randint(-6, 6)]
    r, rest = _nonzero(rng, -4, 4), _nonzero(rng, -9, 9)
    product = [q[0], q[1] - r * q[0], q[2] - r * q[1], rest - r * q[2]]
    return Problem(
        (*q, r, rest),
        rf"What is the quotient when ${poly(product)}$ is divided by ${poly((1, -r))}$?",
        f"Synthetic division with ${r}$ brings down ${q[0]}$, then ${product[1]} {signed(r * q[0])} = "
        rf"{q[1]}$, then "
        f"${product[2]} {signed(r * q[1])} = {q[2]}$, and leaves the remainder ${product[3]} "
        rf"{signed(r * q[2])} = {rest}$. The quotient is "
        rf"${box(poly(q))}$.",
    )


@intermediate_algebra(3)
def _complex_quotient(rng: random.Random) -> Problem:
    a, b, c, d = (_nonzero(rng, -6, 6) for _ in range(4))
    n = c * c + d * d
    real, imaginary = a * c + b * d, b * c - a * d
    answer = complex_number(Fraction(real, n), Fraction(imaginary, n))
    return Problem(
        (a, b, c, d),
        rf"Write $\frac{{{complex_number(a, b)}}}{{{complex_number(c, d)}}}$ in the form $a + bi$.",
        f"Multiplying numerator and denominator by the conjugate ${complex_number(c, -d)}$ gives the "
        rf"denominator ${n}$ and the numerator "
        rf"${complex_number(real, imaginary)}$. So the quotient is ${box(answer)}$.",
    )


@intermediate_algebra(3)
def _partial_fractions(rng: random.Random) -> Problem:
    r, s = rng.sample([n for n in range(-7, 8) if n], 2)
    a, b = _nonzero(rng, -8, 8), _nonzero(rng, -8, 8)
    while a + b == 0 and a * s + b * r == 0:
        a = _nonzero(rng, -8, 8)
    top = (a + b, -(a * s + b * r))
    return Problem(
        (a, b, r, s),
        "Find the ordered pair $(A, B)$ of constants with "
        rf"$\frac{{{poly(top)}}}{{({poly((1, -r))})({poly((1, -s))})}} = "
        rf"\frac{{A}}{{{poly((1, -r))}}} + \frac{{B}}{{{poly((1, -s))}}}$ for all $x$ where both sides are "
        rf"defined.",
        f"Clearing denominators, ${poly(top)} = A({poly((1, -s))}) + B({poly((1, -r))})$. At $x = {r}$ this "
        rf"gives ${r - s}A = {a * (r - s)}$, so "
        f"$A = {a}$; at $x = {s}$ it gives ${s - r}B = {b * (s - r)}$, so $B = {b}$. The pair is "
        rf"${box(point(a, b))}$.",
    )


@intermediate_algebra(3)
def _reciprocal_roots(rng: random.Random) -> Problem:
    a, b, c, d = rng.randint(1, 5), rng.randint(-9, 9), _nonzero(rng, -9, 9), _nonzero(rng, -9, 9)
    value = Fraction(-c, d)
    return Problem(
        (a, b, c, d),
        rf"Let $r$, $s$ and $t$ be the complex roots of ${poly((a, b, c, d))} = 0$. Find $\frac{{1}}{{r}} + "
        rf"\frac{{1}}{{s}} + \frac{{1}}{{t}}$.",
        rf"The sum equals $\frac{{rs + st + tr}}{{rst}}$. By Vieta's formulas $rs + st + tr = "
        rf"{frac(Fraction(c, a))}$ and $rst = {frac(Fraction(-d, a))}$, so "
        rf"the sum is ${box(frac(value))}$.",
    )


@intermediate_algebra(4)
def _smallest_value(rng: random.Random) -> Problem:
    a, b, c = rng.randint(1, 9), rng.randint(2, 30), rng.randint(0, 12)
    root = 4 * a * b
    value = surd(root)
    answer = value if c == 0 else frac(c + math.isqrt(root)) if square_part(root)[1] == 1 else f"{c} + {value}"
    top = f"{'' if a == 1 else a}x"
    return Problem(
        (a, b, c),
        rf"Find the minimum value of ${top} + \frac{{{b}}}{{x}}{f' + {c}' if c else ''}$ for $x > 0$.",
        rf"By the inequality of arithmetic and geometric means, ${top} + \frac{{{b}}}{{x}} \ge "
        rf"2\sqrt{{{a * b}}} = {value}$, with equality when "
        rf"${'' if a == 1 else a}x^2 = {b}$. So the minimum is ${box(answer)}$.",
    )


@intermediate_algebra(4)
def _rational_inequality(rng: random.Random) -> Problem:
    r, s = rng.randint(-8, 8), rng.randint(-8, 8)
    while r == s:
        s = rng.randint(-8, 8)
    k = rng.randint(2, 5)
    low, high = sorted((r, s))
    middle = rf"[{low}, {high})" if s == high else rf"({low}, {high}]"
    lead = f"{k}x" if r == 0 else poly((k, -k * r))
    return Problem(
        (r, s, k),
        rf"Find all real $x$ for which $\frac{{{lead}}}{{{poly((1, -s))}}} \le 0$. Express your answer in "
        rf"interval notation.",
        f"The numerator is zero at $x = {r}$ and the denominator at $x = {s}$. The quotient is negative "
        rf"only between these points. The zero of the numerator "
        rf"belongs to the solution and the zero of the denominator does not, so $x \in {box(middle)}$.",
    )


@intermediate_algebra(4)
def _ellipse_foci(rng: random.Random) -> Problem:
    a, b = rng.sample(range(2, 13), 2)
    h, k = rng.randint(-6, 6), rng.randint(-6, 6)
    c = abs(a * a - b * b)
    x = "x^2" if h == 0 else f"(x {signed(-h)})^2"
    y = "y^2" if k == 0 else f"(y {signed(-k)})^2"
    return Problem(
        (a, b, h, k),
        rf"What is the distance between the foci of the ellipse $\frac{{{x}}}{{{a * a}}} + "
        rf"\frac{{{y}}}{{{b * b}}} = 1$?",
        f"The squared semi-axes are ${a * a}$ and ${b * b}$. The distance $c$ from the center to a focus "
        rf"satisfies $c^2 = {max(a, b) ** 2} - "
        rf"{min(a, b) ** 2} = {c}$, so the foci are $2\sqrt{{{c}}}$ apart, which is ${box(surd(c, 2))}$.",
    )


@intermediate_algebra(4)
def _range_of_quotient(rng: random.Random) -> Problem:
    a, b = rng.randint(1, 12), rng.randint(1, 12)
    bound = surd(a * a + b * b)
    return Problem(
        tuple(sorted((a, b))),
        "Let $x$ and $y$ be real numbers with $x^2 + y^2 = 1$. What is the range of possible values of "
        rf"${'' if a == 1 else a}x + "
        rf"{'' if b == 1 else b}y$? Express your answer in interval notation.",
        rf"By the Cauchy-Schwarz inequality $({'' if a == 1 else a}x + {'' if b == 1 else b}y)^2 \le ({a}^2 "
        rf"+ {b}^2)(x^2 + y^2) = {a * a + b * b}$. Equality holds "
        rf"for $(x, y)$ in the direction of $\pm({a}, {b})$, and all values between are taken. The range is "
        rf"${box(f'[-{bound}, {bound}]')}$.",
    )


@intermediate_algebra(5)
def _telescoping(rng: random.Random) -> Problem:
    start, gap, n = rng.randint(1, 6), rng.randint(2, 5), rng.randint(10, 60)
    end = start + gap * n
    value = Fraction(n, start * end)
    first, second, third = start, start + gap, start + 2 * gap
    return Problem(
        (start, gap, n),
        rf"Compute $\frac{{1}}{{{first} \cdot {second}}} + \frac{{1}}{{{second} \cdot {third}}} + \cdots + "
        rf"\frac{{1}}{{{end - gap} \cdot {end}}}$.",
        rf"Each term $\frac{{1}}{{m(m + {gap})}}$ equals $\frac{{1}}{{{gap}}} \left(\frac{{1}}{{m}} - "
        rf"\frac{{1}}{{m + {gap}}}\right)$, so the sum telescopes to "
        rf"$\frac{{1}}{{{gap}}} \left({frac(Fraction(1, start))} - \frac{{1}}{{{end}}}\right) = "
        rf"{box(frac(value))}$.",
    )


@intermediate_algebra(5)
def _nested_radical(rng: random.Random) -> Problem:
    a, b = rng.randint(2, 12), rng.randint(1, 10)
    while a <= b or square_part(a * b)[1] == 1:
        a, b = rng.randint(2, 12), rng.randint(1, 10)
    sign = rng.choice("+-")
    answer = f"{surd(a)} {sign} {surd(b)}"
    return Problem(
        (a, b, sign),
        rf"Simplify $\sqrt{{{a + b} {sign} {surd(4 * a * b)}}}$ as a sum or difference of two square roots "
        rf"or of a square root and an integer.",
        rf"We look for $p > q$ with $(\sqrt{{p}} {sign} \sqrt{{q}})^2 = p + q {sign} 2\sqrt{{pq}}$, that is "
        rf"$p + q = {a + b}$ and $pq = {a * b}$. This gives "
        rf"$p = {a}$ and $q = {b}$, so the value is ${box(answer)}$.",
    )


@intermediate_algebra(5)
def _functional_equation(rng: random.Random) -> Problem:
    a, b, c, x = rng.randint(2, 6), rng.randint(1, 9), _nonzero(rng, -9, 9), rng.randint(2, 8)
    first, second = b * x + c, Fraction(b, x) + c
    value = (a * second - first) / (a * a - 1)
    return Problem(
        (a, b, c, x),
        rf"The function $f$ satisfies $f(x) + {a} f\left(\frac{{1}}{{x}}\right) = {poly((b, c))}$ for all "
        rf"nonzero real $x$. Find $f({x})$.",
        rf"With $x = {x}$ we get $f({x}) + {a} f\left(\frac{{1}}{{{x}}}\right) = {first}$, and with $x = "
        rf"\frac{{1}}{{{x}}}$ we get "
        rf"$f\left(\frac{{1}}{{{x}}}\right) + {a} f({x}) = {frac(second)}$. Multiplying the second equation "
        rf"by ${a}$ and subtracting the first gives "
        rf"${a * a - 1} f({x}) = {frac(a * second - first)}$, so $f({x}) = {box(frac(value))}$.",
    )


@intermediate_algebra(5)
def _cubes_of_roots(rng: random.Random) -> Problem:
    b, c, d = _nonzero(rng, -6, 6), _nonzero(rng, -9, 9), _nonzero(rng, -9, 9)
    s1 = -b
    s2 = b * b - 2 * c
    s3 = -b * s2 - c * s1 - 3 * d
    return Problem(
        (b, c, d),
        rf"Let $r$, $s$ and $t$ be the roots of ${poly((1, b, c, d))} = 0$. Compute $r^3 + s^3 + t^3$.",
        f"By Vieta's formulas $r + s + t = {s1}$ and $rs + st + tr = {c}$, so $r^2 + s^2 + t^2 = "
        rf"{bracketed(s1)}^2 - 2 \cdot {bracketed(c)} = {s2}$. Each root "
        rf"satisfies $x^3 = {poly((-b, -c, -d))}$. Adding these up gives ${bracketed(-b)} \cdot "
        rf"{bracketed(s2)} + {bracketed(-c)} \cdot {bracketed(s1)} {signed(-3 * d)} = "
        rf"{box(s3)}$.",
    )


@intermediate_algebra(5)
def _comparing_quotients(rng: random.Random) -> Problem:
    p, k = rng.randint(1, 8), rng.randint(1, 6)
    q = p + rng.randint(1, 9)
    return Problem(
        (p, q, k),
        rf"Find all real $x$ such that $\frac{{x + {p}}}{{x + {q}}} < \frac{{x + {p + k}}}{{x + {q + k}}}$. "
        rf"Express your answer in interval "
        "notation.",
        rf"Right side minus left side equals $\frac{{{(q - p) * k}}}{{(x + {q})(x + {q + k})}}$. The "
        rf"numerator is positive, so the inequality holds exactly "
        rf"when both factors of the denominator have the same sign: $x \in {box(outside(-q - k, -q))}$.",
    )
