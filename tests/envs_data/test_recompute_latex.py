"""Answers of `math` and `aime`, worked out a second time: from the question's formula, by brute force, or by sympy.

The build scripts use closed formulas; here we read, count, search and simulate.
"""

import math
import re
from collections import Counter, defaultdict
from fractions import Fraction as Q
from functools import cache
from itertools import combinations, pairwise, permutations, product
from operator import mul

import pytest
import sympy as sp
from latex2sympy2_extended import latex2sympy
from sympy.solvers.inequalities import solve_rational_inequalities

from envs_data.build import spec
from envs_data.build.draft import deal
from marft_envs.grading import boxed_answers

X = sp.Symbol("x")
FORMULAS = {
    *("order_of_operations", "sum_of_fractions", "expand", "complex_product", "complex_size", "complex_quotient"),
    *("rationalise", "nested_radical", "determinant", "matrix_product", "de_moivre", "tangent_sum"),
}
"""Templates whose questions ask for the value of the formula that they print."""
INEQUALITIES = {"linear_inequality", "quadratic_inequality", "rational_inequality", "comparing_quotients"}


@cache
def drafts():
    grouped = defaultdict(list)
    for found in map(spec, ("math", "aime")):
        for item in deal(found.name, found.groups, found.text_column):
            grouped[item.template.rpartition("/")[2]].append(item.draft)
    return grouped


def question(draft):
    return draft.row.get("problem") or draft.row["Problem"]


def gold(draft):
    (answer,) = boxed_answers(draft.row.get("solution") or draft.row["Solution"])
    assert draft.row.get("Answer", answer) == answer
    return answer


def value(latex):
    return sp.Integer(latex) if re.fullmatch(r"-?\d+", latex) else latex2sympy(latex).doit().subs("i", sp.I)


def parts(found):
    if isinstance(found, sp.Interval):  # a pair of numbers, read as an interval
        return [found.start, found.end]
    if isinstance(found, sp.FiniteSet):
        return sorted(found, key=float)
    return list(found) if isinstance(found, list | tuple | sp.Tuple | sp.MatrixBase) else [found]


def is_written(expected, latex):
    """Compare sets with their brackets, other values by their numbers, with one for x."""
    expected = sp.sympify(expected)
    if sp.latex(expected).replace(" ", "") == latex.replace(" ", ""):
        return True
    found = value(latex)
    if isinstance(expected, sp.Set):
        return found == expected
    pairs = zip(parts(found), parts(expected), strict=True)
    return all(abs(complex(sp.N((a - b).subs(X, Q(7, 3)), 30))) < 1e-9 for a, b in pairs)


# ---- second ways


def count(condition, *ranges):
    return sum(bool(condition(*choice)) for choice in product(*ranges))


def least(condition, start=1, stop=10**6):
    return next(n for n in range(start, stop) if condition(n))


def upto(n, start=1):
    return range(start, n + 1)


def apart(gap, chosen):
    return all(b - a >= gap for a, b in pairwise(chosen))


def roots(*coefficients):
    return sp.Poly(coefficients, X).nroots(n=30)


def power_sum(power, *coefficients):
    return sum(root**power for root in roots(*coefficients))


def dot(u, v):
    return sum(map(mul, u, v))


def paths(width, height, allowed=lambda x, y: True):
    """Count lattice paths from (0, 0) by dynamic programming."""
    ways = Counter({(0, 0): 1})
    for x, y in product(range(width + 1), range(height + 1)):
        if (x, y) != (0, 0) and allowed(x, y):
            ways[x, y] = ways[x - 1, y] + ways[x, y - 1]
    return ways[width, height]


def heron(a, b, c):
    """Area of a triangle with a side on the x-axis."""
    x = (a * a + b * b - c * c) / (2 * a)
    return a * math.sqrt(b * b - x * x) / 2


def rows_without_neighbours(n, circular):
    return count(lambda *row: not any(row[i] and row[i - 1] for i in range(not circular, n)), *[(0, 1)] * n)


def fixed_points(n, k):
    return sum(sum(i == p for i, p in enumerate(ps)) == k for ps in permutations(range(n))) if n < 9 else None


def reflected(x, y, k, line):
    mirror = sp.Line((k, 0), (k, 1)) if line == "x" else sp.Line((0, k), (1, k))
    return list(sp.Point(x, y).reflect(mirror).reflect(sp.Line((0, 0), (1, 1))))


def count_zeros(k, function, a, b):
    values = [a * getattr(math, function)(k * t * 2 * math.pi / 20011) - b for t in range(20012)]
    return sum(u * v < 0 for u, v in pairwise(values))


def matrix_power(kind, c, a, n):
    return sp.Matrix({"rotation": [[0, -1], [1, 0]], "shear": [[1, a], [0, 1]], "scaled": [[c, a], [0, c]]}[kind]) ** n


def solutions(relation):
    quotient = sp.fraction(sp.together(relation.lhs - relation.rhs))
    return solve_rational_inequalities([[(tuple(sp.Poly(part, X) for part in quotient), relation.rel_op)]])


def functional_equation(a, b, c, x):
    return sp.Matrix([[1, a], [a, 1]]).solve(sp.Matrix([b * x + c, Q(b, x) + c]))[0]


def climbs(n, broken, step=0):
    if step >= n:
        return step == n
    return 0 if step == broken else sum(climbs(n, broken, step + s) for s in (1, 2, 3))


def lattice(a, c, d):
    def left_of(px, py, qx, qy, x, y):
        return (qx - px) * (y - py) - (qy - py) * (x - px) > 0

    sides = ((0, 0, a, 0), (a, 0, c, d), (c, d, 0, 0))
    return count(lambda x, y: all(left_of(*side, x, y) for side in sides), range(a + 1), range(d + 1))


def symmetric_system(x, y):
    total = (x + 1) * (y + 1)
    pairs = [(i, total // (i + 1) - 1) for i in range(1, total) if total % (i + 1) == 0]
    (squares,) = {i * i + j * j for i, j in pairs if i * j * (i + j) == x * y * (x + y)}
    return squares


PARAMETERS = {
    # prealgebra
    "percent_of": lambda p, n: Q(p * n, 100),
    "feet_and_inches": lambda f, i, k: sum(12 * f + i for _ in range(k)),
    "missing_score": lambda s, m: least(lambda x: sum(s) + x == 5 * m),
    "ratio_share": lambda a, b, u: least(lambda r: r * b == ((a + b) * u - r) * a),
    "two_percent_changes": lambda u, d, p: Q(p * (100 + u) * (100 - d), 10_000),
    "lights_flash": lambda a, b, c: least(lambda t: t % a == t % b == t % c == 0),
    "angle_ratio": lambda a, b, w: w - Q(w * a, a + b),
    "money_left": lambda f, s, n: least(lambda x: x * (1 - f) * (1 - s) == n * (1 - f) * (1 - s)),
    "removed_number": lambda n, m, k: least(lambda x: Q(n * m - x, n - 1) == k),
    "area_percent": lambda u, d: abs(Q((100 + u) * (100 - d), 10_000) - 1),
    "average_speed": lambda a, b: 2 / (Q(1, a) + Q(1, b)),
    "page_digits": lambda n: sum(len(str(page)) for page in upto(n)),
    "mixture": lambda w, s, v, t: sp.solve((w * v + s * X) - t * (v + X), X)[0],
    # algebra
    "linear_equation": lambda a, b, c, d: sp.solve(a * X + b - c * X - d, X)[0],
    "evaluate": lambda a, b, c, x: (a * X**2 + b * X + c).subs(X, x),
    "slope": lambda a, b, c, d: sp.Line((a, b), (c, d)).slope,
    "system": lambda a, b, c, p, q: sp.Matrix([[a, b], [c, -1]]).solve(sp.Matrix([p, q])),
    "equal_powers": lambda g, o, k, s, t: sp.solve(o * (k * X + s) - t, X)[0],
    "composition": lambda a, b, c, d, n: (a * X + b).subs(X, c * n * n + d),
    "distance": lambda x, y, u, v: sp.Point(x, y).distance(sp.Point(x + u, y + v)),
    "line_through": lambda m, b, x, z: sp.interpolate([(x, m * x + b), (z, m * z + b)], X),
    "larger_root": lambda a, p, c: max(roots(a, -2 * p, c)),
    "arithmetic_sum": lambda f, s, n: sum(f + s * i for i in range(n)),
    "absolute_value": lambda a, b, c: sp.Interval.open(*sorted(sp.roots((a * X + b) ** 2 - c * c, X))),
    "vertex": lambda a, h, k: [h, (a * (X - h) ** 2 + k).subs(X, h)],
    "inverse_squares": lambda b, c: power_sum(-2, 1, b, c),
    "tangent_values": lambda a, c: roots(1, 0, -4 * a * c),
    "log_equation": lambda g, k, d, s: max(sp.solve((X - s) * (X + d - s) - g**k, X)),
    # number theory
    "greatest_common_divisor": lambda a, b: max(d for d in upto(a) if a % d == b % d == 0),
    "remainder": lambda a, b, c, m: (a * b + c) % m,
    "largest_prime_factor": lambda n: max(sp.primefactors(n)),
    "number_of_divisors": lambda n: len(sp.divisors(n)),
    "to_base_ten": lambda b, v: v,
    "units_digit": lambda a, n: int(str(a**n)[-1]),
    "sum_of_divisors": lambda n: sum(sp.divisors(n)),
    "inverse": lambda a, m: least(lambda x: a * x % m == 1),
    "missing_digit": lambda a, b, c, d: least(lambda x: int(f"{a}{b}{x}{c}{d}") % 9 == 0, 0, 10),
    "two_congruences": lambda m, a, n, b: least(lambda x: x % m == a and x % n == b),
    "trailing_zeros": lambda n: len(s := str(math.factorial(n))) - len(s.rstrip("0")),
    "power_remainder": lambda a, n, p: a**n % p,
    "even_or_square_divisors": lambda n: sum(math.isqrt(d) ** 2 == d for d in sp.divisors(n)),
    "chicken_nuggets": lambda a, b: max(set(range(a * b)) - {a * i + b * j for i in range(b) for j in range(a)}),
    "coprime_count": lambda n: int(sp.totient(n)),
    "bounded_solutions": lambda a, b, n: count(lambda x, y: a * x + b * y == n, range(1, n), upto(n // b)),
    # counting and probability
    "shelf": lambda n, k: sum(1 for _ in permutations(range(n), k)),
    "committee": lambda n, k: sum(1 for _ in combinations(range(n), k)),
    "one_marble": lambda a, b, c: Q(b + c, a + b + c),
    "rearranged_word": lambda w: len(set(permutations(w))) if len(w) < 9 else None,
    "two_dice": lambda s, o, t: Q(count(lambda a, b: a + b >= t, upto(s), upto(o)), s * o),
    "handshakes": lambda n: sum(a // 2 != b // 2 for a, b in combinations(range(2 * n), 2)),
    "same_colour": lambda a, b: Q(a * (a - 1) + b * (b - 1), (a + b) * (a + b - 1)),
    "grid_paths": lambda a, b, p, q: paths(p, q) * paths(a - p, b - q),
    "heads": lambda n, k: Q(count(lambda *coins: sum(coins) == k, *[(0, 1)] * n), 2**n),
    "expected_prize": lambda n, b, s, w, c: Q(b * w + s * c, n),
    "not_adjacent": lambda o, k: (
        math.factorial(o) * math.factorial(k) * sum(apart(2, s) for s in combinations(range(o + k), k))
    ),
    "candies": lambda n, k, few: count(lambda *s: n - sum(s) >= few, *[upto(n, few)] * (k - 1)),
    "defective": lambda n, bad, k: Q(sum(min(s) < bad for s in combinations(range(n), k)), math.comb(n, k)),
    "fixed_points": fixed_points,
    "onto": lambda n, k: count(lambda *shelves: len(set(shelves)) == k, *[range(k)] * n),
    "no_two_heads": lambda n: Q(rows_without_neighbours(n, False), 2**n),
    "fence_posts": lambda n: rows_without_neighbours(n, True),
    "first_to_win": lambda p, q: float(sum(p * ((1 - p) * (1 - q)) ** i for i in range(150))),
    # geometry
    "third_angle": lambda a, b: 180 - a - b,
    "fence": lambda w, e: 2 * w + 2 * (w + e),
    "circle_measure": lambda d, what: getattr(sp.Circle((0, 0), Q(d, 2)), what),
    "hypotenuse": lambda a, b: sp.Point(0, 0).distance(sp.Point(a, b)),
    "polygon_angle": lambda n, what: Q(360, n) if what == "exterior" else Q(180 * (n - 2), n),
    "triangle_on_axes": lambda a, b, c: abs(sp.Triangle((0, 0), (Q(c, a), 0), (0, Q(c, b))).area),
    "box_diagonal": lambda a, b, c: sp.Point(0, 0, 0).distance(sp.Point(a, b, c)),
    "similar": lambda d, b, c: Q(d, d + b) * c,
    "sector": lambda r, w, what: sp.pi * r * r * Q(w, 360) if what == "area" else 2 * r + 2 * sp.pi * r * Q(w, 360),
    "reflected_point": reflected,
    "inradius": lambda a, b, c: 2 * heron(a, b, c) / (a + b + c),
    "cone": lambda r, h, what: sp.pi * r * (Q(r * h, 3) if what == "volume" else sp.sqrt(r * r + h * h)),
    "shoelace": lambda p, q, r: abs(sp.Triangle(p, q, r).area),
    "law_of_cosines": lambda a, b, w: abs(a - b * sp.exp(sp.I * sp.rad(w))),
    "circumradius": lambda a, b, c: a * b * c / (4 * heron(a, b, c)),
    "chord_ring": lambda c, r: sp.pi * (r * r + Q(c * c, 4)),
    "hexagon_ring": lambda s, shape: sp.pi * Q(s, 2) ** 2,  # by Pythagoras, for every regular polygon
    "tetrahedron_corner": lambda a, b, c: sp.Plane((a, 0, 0), (0, b, 0), (0, 0, c)).distance(sp.Point(0, 0, 0)),
    # intermediate algebra
    "remainder_theorem": lambda a, b, c, d, r: sp.rem(a * X**3 + b * X**2 + c * X + d, X - r, X),
    "asymptote": lambda a, b, c, d: [Q(-d, c), Q(a, c)],
    "cube_from_sum": lambda s, p: power_sum(3, 1, -s, p),
    "division": lambda a, b, c, r, rest: sp.quo(sp.expand((a * X**2 + b * X + c) * (X - r) + rest), X - r, X),
    "partial_fractions": lambda a, b, r, s: [a, b],
    "reciprocal_roots": lambda a, b, c, d: power_sum(-1, a, b, c, d),
    "smallest_value": lambda a, b, c: (a * X + b / X + c).subs(X, sp.sqrt(Q(b, a))),
    "ellipse_foci": lambda a, b, h, k: 2 * sp.Ellipse((h, k), max(a, b), min(a, b)).focus_distance,
    "range_of_quotient": lambda a, b: sp.Interval(-abs(a + b * sp.I), abs(a + b * sp.I)),
    "telescoping": lambda s, g, n: sum(Q(1, (s + g * i) * (s + g * i + g)) for i in range(n)),
    "functional_equation": functional_equation,
    "cubes_of_roots": lambda b, c, d: power_sum(3, 1, b, c, d),
    # precalculus
    "radians": sp.rad,
    "dot_product": dot,
    "vector_combination": lambda u, v, a, b: a * sp.Matrix(u) - b * sp.Matrix(v),
    "exact_value": lambda function, degrees: getattr(sp, function)(sp.rad(degrees)),
    "period": lambda function, a, b, c, k: (1 if function == "tan" else 2) * sp.pi * Q(k, b),
    "matrix_power": matrix_power,
    "inverse_matrix": lambda a, b, c, d: sp.Matrix([[a, b], [c, d]]).inv(),
    "to_rectangular": lambda r, a: [r * sp.cos(sp.rad(a)), r * sp.sin(sp.rad(a))],
    "cross_product": lambda u, v: sp.Matrix(u).cross(sp.Matrix(v)),
    "projection": lambda u, v: sp.Matrix(u).project(sp.Matrix(v)),
    "double_angle": lambda a, b, sign, what: getattr(sp, what[1:4])(2 * sp.atan2(a, sign * b)),
    "triangle_in_space": lambda *corners: heron(*(math.dist(p, q) for p, q in combinations(corners, 2))),
    "count_solutions": count_zeros,
    "point_to_plane": lambda n, p, d: abs(dot(n, p) - d) / sp.Matrix(n).norm(),
    "line_and_plane": lambda p, v, n, d: sp.Matrix(p) + sp.Matrix(v) * Q(d - dot(n, p), dot(n, v)),
    # aime
    "last_three_digits": lambda b, n, a: (b**n + a) % 1000,
    "or_but_not": lambda a, b, c, n: count(lambda k: (k % a == 0 or k % b == 0) and k % c, upto(n)),
    "divides_square": lambda a, b: sum(n for n in upto(a * a + b) if (n * n + b) % (n + a) == 0),
    "three_remainders": lambda a, b, c, v: least(lambda x: all(x % n == v % n for n in (a, b, c))),
    "unit_fractions": lambda n: count(lambda d: n * n % d == 0, upto(n)) * 2 - 1,
    "squares_or_cubes": lambda *exponents: count(
        lambda *taken: any(all(e % k == 0 for e in taken) for k in (2, 3)), *[upto(e, 0) for e in exponents]
    ),
    "digit_sum": lambda n, t: count(lambda k: sum(map(int, str(k))) == t, range(10 ** (n - 1), 10**n)),
    "base_palindrome": lambda b, s: count(lambda k: k // b**2 == k % b and k % s == 0, range(b * b, b**3)),
    "no_repeated_letter": lambda k, n: (
        count(lambda *word: (0, 0) not in pairwise(word), *[range(k)] * n) if k**n < 300_000 else None
    ),
    "separated_subsets": lambda n, k, gap: sum(apart(gap, s) for s in combinations(range(n), k)),
    "sum_multiple_of_three": lambda n: sum(sum(s) % 3 == 0 for s in combinations(upto(n), 3)),
    "below_diagonal": lambda n, m: paths(n, m, lambda a, b: a >= b),
    "two_socks": lambda *c: Q(sum(k * (k - 1) for k in c), sum(c) * (sum(c) - 1)),
    "largest_die": lambda d, s, t: Q(count(lambda *dice: max(dice) == t, *[upto(s)] * d), s**d),
    "triples_with_bound": lambda n, b: count(lambda i, j: 0 <= n - i - j <= b, upto(b, 0), upto(b, 0)),
    "stairs": climbs,
    "powers_of_sum": lambda k, n: power_sum(n, 1, -k, 1),
    "recurrence": lambda p, q, n, a, b: (sp.Matrix([[p, q], [1, 0]]) ** (n - 1) * sp.Matrix([b, a]))[1],
    "shifted_roots": lambda a, b, c: math.prod(map(sum, combinations(roots(1, -a, b, -c), 2))),
    "floor_roots": lambda n: sum(int(math.sqrt(k) + 1e-12) for k in upto(n)),
    "telescoping_product": lambda a, b: math.prod(1 - Q(1, k * k) for k in upto(b, a)),
    "logarithms": lambda base, a, b, x, y: base**x * base**y,
    "symmetric_system": symmetric_system,
    "polynomial_values": lambda a, b, c, p, q, x: (x - a) * (x - b) * (x - c) + p * x + q,
    "cevian": lambda b, c, m, n: c * c + m * m - m * Q((m + n) ** 2 + c * c - b * b, m + n),
    "inscribed_square": lambda a, b: 1 / (Q(1, math.isqrt(a * a + b * b)) + Q(math.isqrt(a * a + b * b), a * b)),
    "box_from_faces": lambda a, b, c: a * a + b * b + c * c,
    "tangent_circles": lambda r, s, g: (r + s + g) ** 2 - (r - s) ** 2,
    "lattice_points": lattice,
    "isosceles_trapezoid": lambda x, h, t: abs(sp.Polygon((0, 0), (t + 2 * x, 0), (t + x, h), (x, h)).area),
    "power_of_point": lambda pa, ab, pc: Q(pa * (pa + ab), pc) - pc,
    "folded_rectangle": lambda a, b: Q(b, 2) * (1 + Q(a, b) ** 2) * a / 2,
}
"""The answer from the parameters of the draft; None where counting would take too long."""


def second_answer(template, draft):
    text = question(draft)
    if template in FORMULAS | INEQUALITIES:
        formula = value(max(re.findall(r"\$(.+?)\$", text), key=len))
        return solutions(formula) if template in INEQUALITIES else formula
    answer = PARAMETERS[template](*draft.parameters)
    if answer is not None and "$m + n$" in text:
        answer = Q(answer).numerator + Q(answer).denominator
    return answer % 1000 if answer is not None and "the answer is divided by $1000$" in text else answer


@pytest.mark.parametrize("template", sorted(FORMULAS | INEQUALITIES | set(PARAMETERS)))
def test_answers_are_right(template):
    checked = 0
    for draft in drafts()[template]:
        expected = second_answer(template, draft)
        if expected is not None:
            assert is_written(expected, gold(draft)), (draft, expected)
            checked += 1
    assert checked >= 3


def test_numerals_have_their_value_in_their_base():
    for template, text in (("to_base_ten", question), ("to_other_base", gold)):
        for draft in drafts()[template]:
            numeral, base = re.search(r"(\d+)_(\d+)", text(draft)).groups()
            assert (int(base), int(numeral, int(base))) == draft.parameters


def test_every_template_but_one_has_a_second_way():
    assert set(drafts()) - FORMULAS - INEQUALITIES - set(PARAMETERS) == {"map_scale", "to_other_base"}
