"""Templates of AIME-style algebra problems."""

import math
import random
from fractions import Fraction

from envs_data.build.aime.counting import LOWEST
from envs_data.build.aime.problem_draft import contest
from envs_data.build.draft import Draft
from envs_data.build.math.latex import listed, poly, signed


def _powers_of_sum(rng: random.Random) -> Draft:
    k, n = rng.randint(3, 9), rng.randint(4, 8)
    values = [2, k]
    for _ in range(n - 1):
        values.append(k * values[-1] - values[-2])
    return contest(
        (k, n),
        rf"Let $x$ be a real number with $x + \frac{{1}}{{x}} = {k}$. Find $x^{n} + \frac{{1}}{{x^{n}}}$.",
        rf"Let $s_m = x^m + \frac{{1}}{{x^m}}$. Then $s_0 = 2$, $s_1 = {k}$ and $s_m = {k}s_{{m-1}} - "
        rf"s_{{m-2}}$. This gives "
        f"${', '.join(f's_{i} = {v}' for i, v in enumerate(values[2:-1], start=2))}$, and finally $s_{n}$ "
        rf"is",
        values[n],
    )


def _recurrence(rng: random.Random) -> Draft:
    p, q, n = rng.randint(1, 4), rng.randint(1, 5), rng.randint(7, 12)
    values = [rng.randint(1, 6), rng.randint(1, 6)]
    start = tuple(values)
    for _ in range(n - 2):
        values.append(p * values[-1] + q * values[-2])
    return contest(
        (p, q, n, *start),
        f"A sequence is defined by $a_1 = {start[0]}$, $a_2 = {start[1]}$ and $a_k = "
        rf"{'' if p == 1 else p}a_{{k-1}} + {'' if q == 1 else q}a_{{k-2}}$ for $k \ge 3$. Find $a_{{{n}}}$.",
        f"The terms from $a_3$ on are ${', '.join(map(str, values[2:-1]))}$, and the next one, $a_{{{n}}}$, "
        rf"is",
        values[-1],
    )


def _shifted_roots(rng: random.Random) -> Draft:
    a, b, c = rng.randint(3, 12), rng.randint(3, 40), rng.randint(2, 60)
    while a * b <= c:
        b = rng.randint(3, 40)
    return contest(
        (a, b, c),
        f"Let $r$, $s$ and $t$ be the complex roots of ${poly((1, -a, b, -c))}$. Find $(r + s)(s + t)(t + "
        rf"r)$.",
        f"Since $r + s + t = {a}$, the product is $({a} - t)({a} - r)({a} - s)$, the value of the "
        rf"polynomial at $x = {a}$. The first two terms cancel, and ${b} \cdot {a} - {c}$ is",
        a * b - c,
    )


def _floor_roots(rng: random.Random) -> Draft:
    n = rng.randint(30, 150)
    value = sum(math.isqrt(k) for k in range(1, n + 1))
    m = math.isqrt(n)
    full = sum(j * (2 * j + 1) for j in range(1, m))
    return contest(
        (n,),
        rf"Evaluate $\lfloor \sqrt{{1}} \rfloor + \lfloor \sqrt{{2}} \rfloor + \cdots + \lfloor \sqrt{{{n}}} "
        rf"\rfloor$, where $\lfloor x \rfloor$ is the greatest integer not exceeding $x$.",
        r"The value $j$ is taken for $j^2 \le k < (j + 1)^2$, that is $2j + 1$ times. The values $1$ to "
        rf"${m - 1}$ contribute ${full}$, and the value ${m}$ is taken ${n - m * m + 1}$ times. The sum is "
        rf"${full} + {m} \cdot {n - m * m + 1}$, which equals",
        value,
    )


def _telescoping_product(rng: random.Random) -> Draft:
    low = rng.randint(2, 9)
    high = low + rng.randint(8, 60)
    value = Fraction(low - 1, low) * Fraction(high + 1, high)
    return contest(
        (low, high),
        rf"The product $\left(1 - \frac{{1}}{{{low}^2}}\right) \left(1 - \frac{{1}}{{{low + 1}^2}}\right) "
        rf"\cdots \left(1 - \frac{{1}}{{{high}^2}}\right)$ {LOWEST}",
        rf"Each factor is $\frac{{(k - 1)(k + 1)}}{{k^2}}$. Everything cancels except "
        rf"$\frac{{{low - 1}}}{{{low}}} \cdot \frac{{{high + 1}}}{{{high}}} = "
        rf"\frac{{{value.numerator}}}{{{value.denominator}}}$. So $m + n$ is",
        value.numerator + value.denominator,
    )


def _logarithms(rng: random.Random) -> Draft:
    base, a, b = rng.choice((2, 3)), rng.randint(2, 5), rng.randint(2, 5)
    while a == b:
        b = rng.randint(2, 5)
    x, y = rng.randint(1, 4), rng.randint(1, 4)
    first, second = x * a + y, x + y * b
    return contest(
        (base, a, b, x, y),
        rf"Positive real numbers $x$ and $y$ satisfy ${a}\log_{base} x + \log_{base} y = {first}$ and "
        rf"$\log_{base} x + {b}\log_{base} y = {second}$. Find $xy$.",
        rf"Let $u = \log_{base} x$ and $v = \log_{base} y$. From ${a}u + v = {first}$ and $u + {b}v = "
        rf"{second}$ we get ${a * b - 1}u = {b * first - second}$, so $u = {x}$ and $v = {y}$. Then "
        rf"$xy = {base}^{{{x + y}}}$, which is",
        base ** (x + y),
    )


def _symmetric_system(rng: random.Random) -> Draft:
    x, y = rng.randint(2, 15), rng.randint(2, 15)
    while x == y or _is_square((x * y) ** 2 - 4 * (x + y)):  # the other root must not be integral too
        x, y = rng.randint(2, 15), rng.randint(2, 15)
    s, q = x + y + x * y, x * x * y + x * y * y
    roots = sorted((x + y, x * y))
    return contest(
        tuple(sorted((x, y))),
        f"Positive integers $x$ and $y$ satisfy $xy + x + y = {s}$ and $x^2y + xy^2 = {q}$. Find $x^2 + "
        rf"y^2$.",
        f"Let $p = xy$ and $q = x + y$. Then $p + q = {s}$ and $pq = {q}$, so $p$ and $q$ are the roots "
        rf"${roots[0]}$ and ${roots[1]}$ of $z^2 - {s}z + {q} = 0$. Only $q = {x + y}$, $p = {x * y}$ makes "
        rf"$x$ and $y$ positive integers: they are ${min(x, y)}$ and ${max(x, y)}$. So $x^2 + y^2$ is",
        x * x + y * y,
    )


def _is_square(number: int) -> bool:
    return number >= 0 and math.isqrt(number) ** 2 == number


def _polynomial_values(rng: random.Random) -> Draft:
    a, b, c = rng.sample(range(1, 8), 3)
    p, q = rng.randint(1, 5), rng.randint(-6, 12)
    x = rng.randint(8, 12)
    value = (x - a) * (x - b) * (x - c) + p * x + q
    points = sorted((a, b, c))
    shown = listed([f"$P({t}) = {p * t + q}$" for t in points])
    return contest(
        (*points, p, q, x),
        rf"The polynomial $P(x)$ has degree $3$ and leading coefficient $1$, and {shown}. Find $P({x})$.",
        f"The three values agree with the linear function ${poly((p, q))}$, so $P(x) = "
        f"{''.join(f'(x {signed(-t)})' for t in points)} {signed(p) if p != 1 else '+ '}x "
        rf"{signed(q) if q else ''}$. "
        rf"At $x = {x}$ this is ${(x - a) * (x - b) * (x - c)} {signed(p * x + q)}$, that is",
        value,
    )


TEMPLATES = (
    _powers_of_sum,
    _recurrence,
    _shifted_roots,
    _floor_roots,
    _telescoping_product,
    _logarithms,
    _symmetric_system,
    _polynomial_values,
)
