"""Templates of precalculus: trigonometry, vectors, matrices, complex powers, lines and planes in space."""

import math
import random
from fractions import Fraction

from envs_data.build.math.latex import (
    box,
    bracketed,
    column,
    frac,
    matrix,
    pi,
    point,
    poly,
    square_part,
    surd,
)
from envs_data.build.math.template_registry import Problem, Subject

precalculus = Subject("Precalculus")
Vector = tuple[int, ...]
TRIPLES = (
    (3, 4, 5),
    (5, 12, 13),
    (8, 15, 17),
    (7, 24, 25),
    (20, 21, 29),
    (9, 40, 41),
    (12, 35, 37),
    (11, 60, 61),
)
SINES = {0: "0", 30: r"\frac{1}{2}", 45: r"\frac{\sqrt{2}}{2}", 60: r"\frac{\sqrt{3}}{2}", 90: "1"}
TANGENTS = {0: "0", 30: r"\frac{\sqrt{3}}{3}", 45: "1", 60: r"\sqrt{3}"}


def _vector(rng: random.Random, size: int, bound: int) -> Vector:
    while True:
        entries = tuple(rng.randint(-bound, bound) for _ in range(size))
        if sum(map(bool, entries)) >= size - 1:
            return entries


def _dot(u: Vector, v: Vector) -> int:
    return sum(a * b for a, b in zip(u, v, strict=True))


def _dot_shown(u: Vector, v: Vector) -> str:
    return " + ".join(rf"{bracketed(a)} \cdot {bracketed(b)}" for a, b in zip(u, v, strict=True))


def _cross(u: Vector, v: Vector) -> Vector:
    (a, b, c), (d, e, f) = u, v
    return b * f - c * e, c * d - a * f, a * e - b * d


@precalculus(1)
def _radians(rng: random.Random) -> Problem:
    angle = rng.choice([a for a in range(-330, 1000, 15) if a and a % 90])
    return Problem(
        (angle,),
        rf"Convert ${angle}^\circ$ to radians.",
        rf"Since $180^\circ = \pi$ radians, ${angle}^\circ = \frac{{{angle}}}{{180}} \cdot \pi = "
        rf"{box(pi(Fraction(angle, 180)))}$ radians.",
    )


@precalculus(1)
def _dot_product(rng: random.Random) -> Problem:
    u, v = _vector(rng, 3, 9), _vector(rng, 3, 9)
    return Problem(
        (u, v),
        rf"Compute the dot product of ${column(u)}$ and ${column(v)}$.",
        rf"The dot product is ${_dot_shown(u, v)} = {box(_dot(u, v))}$.",
    )


@precalculus(1)
def _vector_combination(rng: random.Random) -> Problem:
    u, v, a, b = _vector(rng, 2, 9), _vector(rng, 2, 9), rng.randint(2, 6), rng.randint(2, 6)
    value = tuple(a * x - b * y for x, y in zip(u, v, strict=True))
    return Problem(
        (u, v, a, b),
        rf"Let $\mathbf{{u}} = {column(u)}$ and $\mathbf{{v}} = {column(v)}$. Compute ${a} \mathbf{{u}} - "
        rf"{b} \mathbf{{v}}$.",
        rf"Entry by entry, ${a} \cdot {bracketed(u[0])} - {b} \cdot {bracketed(v[0])} = {value[0]}$ and ${a} "
        rf"\cdot {bracketed(u[1])} - {b} \cdot "
        rf"{bracketed(v[1])} = {value[1]}$, so the result is ${box(column(value))}$.",
    )


@precalculus(2)
def _exact_value(rng: random.Random) -> Problem:
    angle, function = (
        rng.choice([a for a in range(120, 720, 15) if a % 30 == 0 or a % 45 == 0]),
        rng.choice(("sin", "cos", "tan")),
    )
    while function == "tan" and angle % 180 == 90:
        angle = rng.choice((120, 135, 150, 210, 225, 240, 300, 315, 330))
    turned = angle % 360
    reference = min(turned % 180, 180 - turned % 180)
    quadrant_sign = {
        "sin": 1 if turned < 180 else -1,
        "cos": 1 if turned < 90 or turned > 270 else -1,
        "tan": 1 if turned % 180 < 90 else -1,
    }[function]
    table = {"sin": SINES, "cos": {90 - k: v for k, v in SINES.items()}, "tan": TANGENTS}[function]
    size = table[reference]
    value = size if quadrant_sign > 0 or size == "0" else f"-{size}"
    turn = (
        rf"Subtracting full turns, ${angle}^\circ$ has the same {function}e as ${turned}^\circ$. "
        if angle != turned
        else ""
    )
    turn = turn.replace("cose", "cosine").replace("tane", "tangent")
    return Problem(
        (function, angle),
        rf"What is the exact value of $\{function} {angle}^\circ$?",
        rf"{turn}The reference angle of ${turned}^\circ$ is ${reference}^\circ$, and $\{function} "
        rf"{reference}^\circ = {size}$. With the sign for the position of "
        rf"${turned}^\circ$ on the unit circle, $\{function} {angle}^\circ = {box(value)}$.",
    )


@precalculus(2)
def _determinant(rng: random.Random) -> Problem:
    a, b, c, d = (rng.randint(-9, 9) for _ in range(4))
    return Problem(
        (a, b, c, d),
        rf"Compute $\begin{{vmatrix}} {a} & {b} \\ {c} & {d} \end{{vmatrix}}$.",
        rf"The determinant is ${bracketed(a)} \cdot {bracketed(d)} - {bracketed(b)} \cdot {bracketed(c)} = "
        rf"{a * d} - {bracketed(b * c)} = {box(a * d - b * c)}$.",
    )


@precalculus(2)
def _period(rng: random.Random) -> Problem:
    a, b, c, k = rng.randint(2, 9), rng.randint(2, 12), rng.randint(1, 9), rng.randint(1, 9)
    function, whole = rng.choice((("sin", 2), ("cos", 2), ("tan", 1)))
    value = pi(Fraction(whole * k, b))
    inner = poly((Fraction(b, k), c))
    base = "2 \\pi" if whole == 2 else "\\pi"
    return Problem(
        (function, a, b, c, k),
        rf"What is the smallest positive period of the function $y = {a} \{function} \left({inner}\right)$?",
        rf"The function $\{function} t$ has smallest positive period ${base}$. Replacing $t$ by a linear "
        rf"expression with slope ${frac(Fraction(b, k))}$ divides the "
        f"period by ${frac(Fraction(b, k))}$, and neither the factor ${a}$ nor the shift changes it. The "
        rf"period is ${box(value)}$.",
    )


@precalculus(3)
def _matrix_product(rng: random.Random) -> Problem:
    m, n = (
        [[rng.randint(-6, 6) for _ in range(2)] for _ in range(2)],
        [[rng.randint(-6, 6) for _ in range(2)] for _ in range(2)],
    )
    value = [[sum(m[i][k] * n[k][j] for k in range(2)) for j in range(2)] for i in range(2)]
    return Problem(
        (*(tuple(r) for r in m), *(tuple(r) for r in n)),
        rf"Compute ${matrix(m)} {matrix(n)}$.",
        "Each entry is a row of the first matrix times a column of the second. For example the upper left "
        rf"entry is ${bracketed(m[0][0])} \cdot {bracketed(n[0][0])} + "
        rf"{bracketed(m[0][1])} \cdot {bracketed(n[1][0])} = {value[0][0]}$. The product is "
        rf"${box(matrix(value))}$.",
    )


@precalculus(3)
def _inverse_matrix(rng: random.Random) -> Problem:
    a, b, c, d = (rng.randint(-7, 7) for _ in range(4))
    det = a * d - b * c
    while det == 0 or abs(det) > 15:
        a, b, c, d = (rng.randint(-7, 7) for _ in range(4))
        det = a * d - b * c
    value = [[Fraction(d, det), Fraction(-b, det)], [Fraction(-c, det), Fraction(a, det)]]
    return Problem(
        (a, b, c, d),
        rf"Find the inverse of the matrix ${matrix([[a, b], [c, d]])}$.",
        rf"The determinant is ${bracketed(a)} \cdot {bracketed(d)} - {bracketed(b)} \cdot {bracketed(c)} = "
        rf"{det}$. The inverse is $\frac{{1}}{{{det}}} "
        rf"{matrix([[d, -b], [-c, a]])} = {box(matrix(value))}$.",
    )


@precalculus(3)
def _to_rectangular(rng: random.Random) -> Problem:
    r, angle = rng.randint(2, 20), rng.choice((30, 45, 60, 120, 135, 150, 210, 225, 240, 300, 315, 330))
    reference = min(angle % 180, 180 - angle % 180)
    roots = {30: (3, 1), 45: (2, 2), 60: (1, 3)}[reference]
    signs = (1 if angle < 90 or angle > 270 else -1, 1 if angle < 180 else -1)
    x, y = (surd(root, Fraction(sign * r, 2)) for root, sign in zip(roots, signs, strict=True))
    return Problem(
        (r, angle),
        rf"Convert the point $(r, \theta) = \left({r}, {pi(Fraction(angle, 180))}\right)$ from polar to "
        rf"rectangular coordinates.",
        rf"The coordinates are $x = {r} \cos {pi(Fraction(angle, 180))} = {x}$ and $y = {r} \sin "
        rf"{pi(Fraction(angle, 180))} = {y}$. The point is ${box(point(x, y))}$.",
    )


@precalculus(3)
def _cross_product(rng: random.Random) -> Problem:
    u, v = _vector(rng, 3, 6), _vector(rng, 3, 6)
    w = _cross(u, v)
    return Problem(
        (u, v),
        rf"Compute the cross product ${column(u)} \times {column(v)}$.",
        rf"The first entry is ${bracketed(u[1])} \cdot {bracketed(v[2])} - {bracketed(u[2])} \cdot "
        rf"{bracketed(v[1])} = {w[0]}$, and the others follow by cyclic exchange. "
        rf"The cross product is ${box(column(w))}$.",
    )


@precalculus(4)
def _projection(rng: random.Random) -> Problem:
    u, v = _vector(rng, 2, 9), _vector(rng, 2, 6)
    dot, size = _dot(u, v), _dot(v, v)
    value = [Fraction(dot * x, size) for x in v]
    return Problem(
        (u, v),
        rf"Find the projection of ${column(u)}$ onto ${column(v)}$.",
        f"The dot product of the vectors is ${_dot_shown(u, v)} = {dot}$, and the second vector has squared "
        rf"length ${size}$. The projection is "
        rf"${frac(Fraction(dot, size))} {column(v)} = {box(column(value))}$.",
    )


@precalculus(4)
def _double_angle(rng: random.Random) -> Problem:
    a, b, c = rng.choice(TRIPLES)
    if rng.random() < 0.5:
        a, b = b, a
    sign, asked = rng.choice((1, -1)), rng.choice((r"\sin 2\theta", r"\cos 2\theta", r"\tan 2\theta"))
    where = "0 < \\theta < \\frac{\\pi}{2}" if sign > 0 else "\\frac{\\pi}{2} < \\theta < \\pi"
    sine, cosine = Fraction(a, c), Fraction(sign * b, c)
    values = {
        r"\sin 2\theta": (r"2 \sin \theta \cos \theta", 2 * sine * cosine),
        r"\cos 2\theta": (r"1 - 2 \sin^2 \theta", 1 - 2 * sine * sine),
        r"\tan 2\theta": (
            r"\frac{2 \sin \theta \cos \theta}{1 - 2 \sin^2 \theta}",
            2 * sine * cosine / (1 - 2 * sine * sine),
        ),
    }
    formula, value = values[asked]
    return Problem(
        (a, b, sign, asked),
        rf"If $\sin \theta = {frac(sine)}$ and ${where}$, what is ${asked}$?",
        rf"In this range $\cos \theta = {'-' if sign < 0 else ''}\sqrt{{1 - \sin^2 \theta}} = "
        rf"{frac(cosine)}$. So ${asked} = {formula} = {box(frac(value))}$.",
    )


@precalculus(4)
def _triangle_in_space(rng: random.Random) -> Problem:
    p = _vector(rng, 3, 4)
    u, v = _vector(rng, 3, 4), _vector(rng, 3, 4)
    w = _cross(u, v)
    while not any(w):
        v = _vector(rng, 3, 4)
        w = _cross(u, v)
    q, r = tuple(a + b for a, b in zip(p, u, strict=True)), tuple(a + b for a, b in zip(p, v, strict=True))
    total = _dot(w, w)
    return Problem(
        (p, q, r),
        rf"Find the area of the triangle with vertices ${point(*p)}$, ${point(*q)}$ and ${point(*r)}$.",
        f"Two sides are ${column(u)}$ and ${column(v)}$, with cross product ${column(w)}$. Its squared "
        rf"length is ${total}$, so the area is "
        rf"$\frac{{1}}{{2}}\sqrt{{{total}}}$, in simplest form ${box(surd(total, Fraction(1, 2)))}$.",
    )


@precalculus(4)
def _count_solutions(rng: random.Random) -> Problem:
    k, function = rng.randint(2, 9), rng.choice(("sin", "cos"))
    a = rng.randint(2, 9)
    b = rng.randint(1, a - 1) * rng.choice((1, -1))
    value = 2 * k
    return Problem(
        (k, function, a, b),
        rf"How many solutions does the equation ${a} \{function} {k}x = {b}$ have in the interval $[0, "
        rf"2\pi)$?",
        rf"As $x$ runs through $[0, 2\pi)$, $t = {k}x$ runs through ${k}$ full turns. In each turn "
        rf"$\{function} t = {frac(Fraction(b, a))}$ has exactly two solutions, because "
        rf"$-1 < {frac(Fraction(b, a))} < 1$ and ${frac(Fraction(b, a))} \ne 0$. So there are $2 \cdot {k} = "
        rf"{box(value)}$ solutions.",
    )


@precalculus(5)
def _de_moivre(rng: random.Random) -> Problem:
    kind, k = rng.choice((45, 30, 60)), rng.choice((1, 1, 1, 2))
    signs = rng.choice((1, -1)), rng.choice((1, -1))
    n = rng.randint(4, 12)
    roots = {45: (1, 1), 30: (3, 1), 60: (1, 3)}[kind]
    size = (2 if kind == 45 else 4) * k * k
    first = {(1, 1): kind, (-1, 1): 180 - kind, (-1, -1): 180 + kind, (1, -1): 360 - kind}[signs]
    angle = first * n % 360
    if kind == 45 and n % 2:
        n += 1
        angle = first * n % 360
    length = math.isqrt(size**n)
    x, y = surd(roots[0], signs[0] * k), surd(roots[1], k)
    base = rf"{x} {'-' if signs[1] < 0 else '+'} {'' if y == '1' else y}i"
    cosine, sine = _half_surds(angle)
    answer = _complex_surd(length, cosine, sine)
    return Problem(
        (kind, k, signs, n),
        rf"Compute $({base})^{{{n}}}$. Express your answer in the form $a + bi$.",
        rf"The number has absolute value ${surd(size)}$ and argument ${first}^\circ$. By De Moivre's theorem "
        rf"the power has absolute value ${length}$ and argument "
        rf"${n} \cdot {first}^\circ$, which is equivalent to ${angle}^\circ$. So it equals ${length}(\cos "
        rf"{angle}^\circ + i \sin {angle}^\circ) = {box(answer)}$.",
    )


def _half_surds(angle: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return twice the cosine and twice the sine of a multiple of 30 degrees as (factor, radicand)."""
    table = {0: (2, 1), 30: (1, 3), 60: (1, 1), 90: (0, 1), 120: (-1, 1), 150: (-1, 3), 180: (-2, 1)}
    cosine = table[angle if angle <= 180 else 360 - angle]
    turned = (angle - 90) % 360
    return cosine, table[turned if turned <= 180 else 360 - turned]


def _complex_surd(length: int, cosine: tuple[int, int], sine: tuple[int, int]) -> str:
    real = surd(cosine[1], Fraction(cosine[0] * length, 2))
    size = surd(sine[1], Fraction(abs(sine[0]) * length, 2))
    if sine[0] == 0:
        return real
    tail = ("" if size == "1" else size) + "i"
    if cosine[0] == 0:
        return f"-{tail}" if sine[0] < 0 else tail
    return f"{real} {'-' if sine[0] < 0 else '+'} {tail}"


@precalculus(5)
def _point_to_plane(rng: random.Random) -> Problem:
    normal, p, d = _vector(rng, 3, 5), _vector(rng, 3, 5), rng.randint(-12, 12)
    top = _dot(normal, p) - d
    while top == 0:
        d = rng.randint(-12, 12)
        top = _dot(normal, p) - d
    size = _dot(normal, normal)
    outer, inner = square_part(size)
    value = surd(inner, Fraction(abs(top), outer * inner))
    plane = " ".join(
        f"{'-' if n < 0 else '+'} {'' if abs(n) == 1 else abs(n)}{letter}"
        for n, letter in zip(normal, "xyz", strict=True)
        if n
    )
    plane = plane[2:] if plane.startswith("+") else f"-{plane[2:]}"
    return Problem(
        (normal, p, d),
        rf"Find the distance from the point ${point(*p)}$ to the plane ${plane} = {d}$.",
        rf"The distance is $\frac{{|{_dot_shown(normal, p)} - {bracketed(d)}|}}{{\sqrt{{{size}}}}} = "
        rf"\frac{{{abs(top)}}}{{\sqrt{{{size}}}}}$. In simplest form this is "
        rf"${box(value)}$.",
    )


@precalculus(5)
def _line_and_plane(rng: random.Random) -> Problem:
    p, direction, normal = _vector(rng, 3, 6), _vector(rng, 3, 4), _vector(rng, 3, 4)
    slope = _dot(direction, normal)
    while slope == 0:
        normal = _vector(rng, 3, 4)
        slope = _dot(direction, normal)
    d = rng.randint(-15, 15)
    t = Fraction(d - _dot(p, normal), slope)
    value = [a + t * b for a, b in zip(p, direction, strict=True)]
    plane = " ".join(
        f"{'-' if n < 0 else '+'} {'' if abs(n) == 1 else abs(n)}{letter}"
        for n, letter in zip(normal, "xyz", strict=True)
        if n
    )
    plane = plane[2:] if plane.startswith("+") else f"-{plane[2:]}"
    return Problem(
        (p, direction, normal, d),
        f"At what point does the line through ${point(*p)}$ with direction vector ${column(direction)}$ "
        rf"meet the plane ${plane} = {d}$?",
        f"A point of the line is $({poly((direction[0], p[0]), 't')}, {poly((direction[1], p[1]), 't')}, "
        rf"{poly((direction[2], p[2]), 't')})$. Substituting into the "
        f"equation of the plane gives ${poly((slope, _dot(p, normal)), 't')} = {d}$, so $t = {frac(t)}$. "
        rf"The point is ${box(point(*value))}$.",
    )


@precalculus(5)
def _matrix_power(rng: random.Random) -> Problem:
    kind, a, n = rng.choice(("shear", "rotation", "scaled")), _nonzero(rng, -7, 7), rng.randint(5, 60)
    if kind == "shear":
        m, value = [[1, a], [0, 1]], [[1, n * a], [0, 1]]
        why = rf"Multiplying by this matrix again and again only adds ${a}$ to the upper right entry each time"
    elif kind == "rotation":
        n = rng.randint(20, 400)
        m = [[0, -1], [1, 0]]
        value = [[[1, 0], [0, 1]], m, [[-1, 0], [0, -1]], [[0, 1], [-1, 0]]][n % 4]
        why = (
            rf"The matrix is the rotation by $90^\circ$, so its fourth power is the identity, "
            rf"and ${n} = 4 \cdot {n // 4} + {n % 4}$"
        )
    else:
        n, c = rng.randint(3, 7), rng.choice((2, 3, -2))
        m, value = [[c, a], [0, c]], [[c**n, n * c ** (n - 1) * a], [0, c**n]]
        why = (
            f"Write the matrix as ${c}I + N$ with $N = {matrix([[0, a], [0, 0]])}$. Since $N^2 = 0$, the "
            rf"binomial theorem leaves "
            rf"$({c})^{{{n}}} I + {n} \cdot ({c})^{{{n - 1}}} N$"
        )
    return Problem(
        (kind, m[0][0], a if kind != "rotation" else 0, n),
        rf"Compute ${matrix(m)}^{{{n}}}$.",
        rf"{why}. The result is ${box(matrix(value))}$.",
    )


def _nonzero(rng: random.Random, low: int, high: int) -> int:
    return rng.choice([n for n in range(low, high + 1) if n])


@precalculus(5)
def _tangent_sum(rng: random.Random) -> Problem:
    a, b, c = rng.sample(range(2, 10), 3)
    first = (Fraction(1, a) + Fraction(1, b)) / (1 - Fraction(1, a * b))
    value = (first + Fraction(1, c)) / (1 - first * Fraction(1, c))
    return Problem(
        tuple(sorted((a, b, c))),
        rf"Compute $\tan \left(\arctan \frac{{1}}{{{a}}} + \arctan \frac{{1}}{{{b}}} + \arctan "
        rf"\frac{{1}}{{{c}}}\right)$.",
        rf"By the addition formula $\tan \left(\arctan \frac{{1}}{{{a}}} + \arctan \frac{{1}}{{{b}}}\right) "
        rf"= \frac{{\frac{{1}}{{{a}}} + \frac{{1}}{{{b}}}}}"
        rf"{{1 - \frac{{1}}{{{a}}} \cdot \frac{{1}}{{{b}}}}} = {frac(first)}$. Applying it again with "
        rf"$\frac{{1}}{{{c}}}$ gives ${box(frac(value))}$.",
    )
