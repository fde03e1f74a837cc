"""Templates of geometry: triangles, circles, polygons, solids, coordinates."""

import math
import random
from fractions import Fraction

from envs_data.build.math.latex import box, bracketed, frac, pi, point, square_part, surd
from envs_data.build.math.template_registry import Problem, Subject

geometry = Subject("Geometry")
TRIPLES = ((3, 4, 5), (5, 12, 13), (8, 15, 17), (7, 24, 25), (20, 21, 29), (9, 40, 41), (12, 35, 37))
HERONIAN = (
    (13, 14, 15),
    (10, 13, 13),
    (5, 5, 6),
    (4, 13, 15),
    (9, 10, 17),
    (7, 15, 20),
    (11, 13, 20),
    (12, 17, 25),
    (10, 17, 21),
    (13, 20, 21),
    (17, 25, 28),
    (15, 26, 37),
    (25, 29, 36),
    (13, 40, 45),
    (17, 17, 30),
    (25, 25, 14),
    (26, 28, 30),
    (20, 37, 51),
    (13, 37, 40),
    (15, 28, 41),
    (25, 39, 56),
    (8, 29, 35),
)


@geometry(1)
def _third_angle(rng: random.Random) -> Problem:
    a, b = rng.randint(22, 95), rng.randint(15, 70)
    names = rng.choice(("ABC", "PQR", "XYZ", "DEF"))
    return Problem(
        (a, b),
        rf"In triangle ${names}$, $\angle {names[0]} = {a}^\circ$ and $\angle {names[1]} = {b}^\circ$. What "
        rf"is the measure of "
        rf"$\angle {names[2]}$, in degrees?",
        rf"The angles of a triangle add up to $180^\circ$, so $\angle {names[2]} = 180^\circ - {a}^\circ - "
        rf"{b}^\circ = "
        rf"{box(str(180 - a - b) + CIRC)}$.",
    )


@geometry(1)
def _fence(rng: random.Random) -> Problem:
    width, extra = rng.randint(6, 40), rng.randint(2, 30)
    area = width * (width + extra)
    return Problem(
        (width, extra),
        f"A rectangular garden has an area of ${area}$ square meters and a width of ${width}$ meters. How "
        f"many meters of fence go around "
        "it?",
        rf"The length is ${area} \div {width} = {width + extra}$ meters, so the perimeter is $2({width} + "
        rf"{width + extra}) = "
        rf"{box(2 * (2 * width + extra))}$ meters.",
    )


@geometry(1)
def _circle_measure(rng: random.Random) -> Problem:
    d, asked = rng.randint(3, 31), rng.choice(("area", "circumference"))
    if asked == "area":
        r = frac(Fraction(d, 2))
        derive = rf"The radius is ${r}$, so the area is $\pi \cdot \left({r}\right)^2 = "
        value = pi(Fraction(d * d, 4))
    else:
        derive = rf"The circumference is $\pi$ times the diameter: $\pi \cdot {d} = "
        value = pi(d)
    return Problem(
        (d, asked),
        rf"What is the {asked} of a circle with diameter ${d}$? Express your answer in terms of $\pi$.",
        rf"{derive}{box(value)}$.",
    )


@geometry(2)
def _hypotenuse(rng: random.Random) -> Problem:
    a, b = rng.randint(2, 15), rng.randint(2, 15)
    total = a * a + b * b
    return Problem(
        tuple(sorted((a, b))),
        f"The legs of a right triangle have lengths ${a}$ and ${b}$. What is the length of the hypotenuse? "
        f"Express your answer in simplest "
        "radical form.",
        f"By the Pythagorean theorem the square of the hypotenuse is ${a}^2 + {b}^2 = {total}$, so its "
        rf"length in simplest form "
        rf"is ${box(surd(total))}$.",
    )


@geometry(2)
def _polygon_angle(rng: random.Random) -> Problem:
    n, asked = rng.choice([k for k in range(5, 41) if k != 6]), rng.choice(("interior", "exterior"))
    value = Fraction(360, n) if asked == "exterior" else 180 - Fraction(360, n)
    tail = (
        ""
        if asked == "exterior"
        else rf" The interior angle is its supplement, $180^\circ - {frac(Fraction(360, n))}^\circ$."
    )
    return Problem(
        (n, asked),
        f"What is the measure, in degrees, of each {asked} angle of a regular polygon with ${n}$ sides? "
        f"Express your answer as an integer or a "
        "fraction in lowest terms.",
        rf"The exterior angles add up to $360^\circ$, so each measures $360 \div {n} = "
        rf"{frac(Fraction(360, n))}$ degrees.{tail} "
        rf"The answer is ${box(frac(value))}$.",
    )


@geometry(2)
def _triangle_on_axes(rng: random.Random) -> Problem:
    a, b, c = rng.randint(2, 9), rng.randint(2, 9), rng.randint(10, 60)
    value = Fraction(c * c, 2 * a * b)
    return Problem(
        (a, b, c),
        f"What is the area of the triangle enclosed by the coordinate axes and the line ${a}x + {b}y = "
        rf"{c}$?",
        f"The line meets the axes at $x = {frac(Fraction(c, a))}$ and $y = {frac(Fraction(c, b))}$. These "
        rf"are the legs of a right triangle "
        rf"with area $\frac{{1}}{{2}} \cdot {frac(Fraction(c, a))} \cdot {frac(Fraction(c, b))} = "
        rf"{box(frac(value))}$.",
    )


@geometry(3)
def _box_diagonal(rng: random.Random) -> Problem:
    a, b, c = sorted(rng.sample(range(2, 13), 3))
    total = a * a + b * b + c * c
    return Problem(
        (a, b, c),
        f"A rectangular box measures ${a}$ by ${b}$ by ${c}$. What is the length of its space diagonal? "
        f"Express your answer in simplest "
        "radical form.",
        f"Applying the Pythagorean theorem twice, the square of the diagonal is ${a}^2 + {b}^2 + {c}^2 = "
        rf"{total}$. The diagonal is "
        rf"${box(surd(total))}$.",
    )


@geometry(3)
def _similar(rng: random.Random) -> Problem:
    ad, db, bc = rng.randint(2, 9), rng.randint(2, 9), rng.randint(5, 24)
    value = Fraction(ad * bc, ad + db)
    return Problem(
        (ad, db, bc),
        rf"In triangle $ABC$, point $D$ lies on $\overline{{AB}}$ with $AD = {ad}$ and $DB = {db}$. The line "
        rf"through $D$ parallel to "
        rf"$\overline{{BC}}$ meets $\overline{{AC}}$ at $E$. If $BC = {bc}$, what is $DE$?",
        rf"Triangles $ADE$ and $ABC$ are similar with ratio $\frac{{AD}}{{AB}} = \frac{{{ad}}}{{{ad} + "
        rf"{db}}} = {frac(Fraction(ad, ad + db))}$. "
        rf"So $DE = {frac(Fraction(ad, ad + db))} \cdot {bc} = {box(frac(value))}$.",
    )


@geometry(3)
def _sector(rng: random.Random) -> Problem:
    r, angle = (
        rng.randint(3, 18),
        rng.choice((30, 36, 40, 45, 60, 72, 75, 100, 120, 135, 144, 150, 210, 240, 270)),
    )
    part = Fraction(angle, 360)
    asked = rng.choice(("area", "perimeter"))
    if asked == "area":
        end = rf"The area is ${frac(part)} \cdot \pi \cdot {r}^2 = {box(pi(part * r * r))}$."
    else:
        arc = pi(part * 2 * r)
        end = (
            rf"The arc has length ${frac(part)} \cdot 2 \pi \cdot {r} = {arc}$. "
            rf"With the two radii the perimeter is ${box(f'{2 * r} + {arc}')}$."
        )
    return Problem(
        (r, angle, asked),
        rf"What is the {asked} of a sector of a circle with radius ${r}$ and central angle ${angle}^\circ$? "
        rf"Express your answer in terms of "
        r"$\pi$.",
        rf"The sector is $\frac{{{angle}}}{{360}} = {frac(part)}$ of the circle. {end}",
    )


@geometry(3)
def _reflected_point(rng: random.Random) -> Problem:
    x, y = rng.randint(-9, 9), rng.randint(-9, 9)
    k, line = rng.randint(-5, 5), rng.choice(("x", "y"))
    image = (2 * k - x, y) if line == "x" else (x, 2 * k - y)
    while image == (x, y):
        x, y = rng.randint(-9, 9), rng.randint(-9, 9)
        image = (2 * k - x, y) if line == "x" else (x, 2 * k - y)
    final = (image[1], image[0])
    return Problem(
        (x, y, k, line),
        f"The point ${point(x, y)}$ is reflected across the line ${line} = {k}$, and the image is reflected "
        rf"across the line $y = x$. What are the "
        "coordinates of the final point? Express your answer as an ordered pair.",
        f"Reflection across ${line} = {k}$ replaces ${line}$ by ${2 * k} - {line}$ and gives "
        rf"${point(*image)}$. Reflection across $y = x$ exchanges "
        rf"the coordinates, which gives ${box(point(*final))}$.",
    )


@geometry(4)
def _inradius(rng: random.Random) -> Problem:
    k = rng.randint(1, 2)
    a, b, c = (k * side for side in rng.choice(HERONIAN))
    s = Fraction(a + b + c, 2)
    square = s * (s - a) * (s - b) * (s - c)
    area = math.isqrt(int(square))
    return Problem(
        (a, b, c),
        f"A triangle has sides of lengths ${a}$, ${b}$ and ${c}$. What is the radius of its inscribed circle?",
        rf"The semiperimeter is $s = {frac(s)}$, and by Heron's formula the area is $\sqrt{{{frac(s)} \cdot "
        rf"{frac(s - a)} \cdot {frac(s - b)} \cdot "
        rf"{frac(s - c)}}} = {area}$. Since the area equals $rs$, $r = \frac{{{area}}}{{{frac(s)}}}"
        + (
            f" = {box(frac(area / s))}$."
            if (area / s).denominator != s
            else f"$, so the radius is ${box(frac(area / s))}$."
        ),
    )


@geometry(4)
def _cone(rng: random.Random) -> Problem:
    a, b, c = rng.choice(TRIPLES)
    k = rng.randint(1, 3)
    r, h = rng.choice(((a * k, b * k), (b * k, a * k)))
    slant, asked = c * k, rng.choice(("volume", "lateral surface area"))
    if asked == "volume":
        given = f"slant height ${slant}$"
        first = rf"The height is $\sqrt{{{slant}^2 - {r}^2}} = {h}$."
        end = rf"The volume is $\frac{{1}}{{3}} \pi \cdot {r}^2 \cdot {h} = {box(pi(Fraction(r * r * h, 3)))}$."
    else:
        given = f"height ${h}$"
        first = rf"The slant height is $\sqrt{{{r}^2 + {h}^2}} = {slant}$."
        end = rf"The lateral surface area is $\pi \cdot {r} \cdot {slant} = {box(pi(r * slant))}$."
    return Problem(
        (r, h, asked),
        rf"A right circular cone has base radius ${r}$ and {given}. What is its {asked}? Express your answer "
        r"in terms of $\pi$.",
        f"{first} {end}",
    )


@geometry(4)
def _shoelace(rng: random.Random) -> Problem:
    while True:
        corners = [(rng.randint(-8, 8), rng.randint(-8, 8)) for _ in range(3)]
        (x1, y1), (x2, y2), (x3, y3) = corners
        double = (x2 - x1) * (y3 - y1) - (x3 - x1) * (y2 - y1)
        if abs(double) > 5:
            break
    return Problem(
        tuple(sorted(corners)),
        f"Find the area of the triangle with vertices ${point(x1, y1)}$, ${point(x2, y2)}$ and "
        rf"${point(x3, y3)}$.",
        f"Two sides are the vectors ${point(x2 - x1, y2 - y1)}$ and ${point(x3 - x1, y3 - y1)}$. The area "
        rf"is half the absolute value of "
        rf"${bracketed(x2 - x1)} \cdot {bracketed(y3 - y1)} - {bracketed(x3 - x1)} \cdot "
        rf"{bracketed(y2 - y1)} = {double}$, which is "
        rf"${box(frac(Fraction(abs(double), 2)))}$.",
    )


@geometry(4)
def _law_of_cosines(rng: random.Random) -> Problem:
    a, b, angle = rng.randint(3, 14), rng.randint(3, 14), rng.choice((60, 120))
    total = a * a + b * b + (a * b if angle == 120 else -a * b)
    while a == b:
        b = rng.randint(3, 14)
        total = a * a + b * b + (a * b if angle == 120 else -a * b)
    return Problem(
        (*sorted((a, b)), angle),
        rf"In triangle $ABC$, $AB = {a}$, $AC = {b}$ and $\angle A = {angle}^\circ$. What is $BC$? Express "
        rf"your answer in simplest radical form.",
        rf"By the law of cosines $BC^2 = {a}^2 + {b}^2 - 2 \cdot {a} \cdot {b} \cos {angle}^\circ = "
        rf"{total}$, so $BC = {box(surd(total))}$.",
    )


@geometry(5)
def _circumradius(rng: random.Random) -> Problem:
    a, b, c = rng.choice(HERONIAN)
    k = rng.randint(1, 2)
    a, b, c = k * a, k * b, k * c
    s = Fraction(a + b + c, 2)
    area = math.isqrt(int(s * (s - a) * (s - b) * (s - c)))
    value = Fraction(a * b * c, 4 * area)
    return Problem(
        (a, b, c),
        f"What is the radius of the circle that passes through the vertices of a triangle with sides ${a}$, "
        f"${b}$ and ${c}$? Express your answer as "
        "an integer or a common fraction.",
        f"With semiperimeter ${frac(s)}$, Heron's formula gives the area $K = {area}$. The circumradius is "
        rf"$R = \frac{{abc}}{{4K}} = "
        rf"\frac{{{a} \cdot {b} \cdot {c}}}{{4 \cdot {area}}} = {box(frac(value))}$.",
    )


@geometry(5)
def _chord_ring(rng: random.Random) -> Problem:
    chord, extra = rng.randint(5, 30), rng.randint(2, 12)
    ring = Fraction(chord * chord, 4)
    asked = ring + extra * extra
    return Problem(
        (chord, extra),
        f"Two circles have the same center. A chord of the larger circle with length ${chord}$ is tangent "
        rf"to the smaller circle, whose radius is "
        rf"${extra}$. What is the area of the larger circle? Express your answer in terms of $\pi$.",
        "The radius to the point of tangency bisects the chord at a right angle, so the larger radius $R$ "
        rf"satisfies "
        rf"$R^2 = {extra}^2 + \left({frac(Fraction(chord, 2))}\right)^2 = {frac(asked)}$. The area is $\pi "
        rf"R^2 = {box(pi(asked))}$.",
    )


@geometry(5)
def _hexagon_ring(rng: random.Random) -> Problem:
    side, shape = rng.randint(2, 16), rng.choice(("hexagon", "triangle"))
    if shape == "hexagon":
        inside, outside = Fraction(3 * side * side, 4), Fraction(side * side)
        why = (
            rf"the distance from the center to a side is $\frac{{{side}\sqrt{{3}}}}{{2}}$, "
            rf"and the distance to a vertex is ${side}$"
        )
    else:
        inside, outside = Fraction(side * side, 12), Fraction(side * side, 3)
        why = (
            rf"the inscribed circle has squared radius ${frac(inside)}$, "
            rf"and the circumscribed circle has squared radius ${frac(outside)}$"
        )
    name = "a regular hexagon" if shape == "hexagon" else "an equilateral triangle"
    return Problem(
        (side, shape),
        f"A circle is inscribed in {name} with side length ${side}$, and another circle passes through its "
        rf"vertices. What is the area of the region "
        r"between the two circles? Express your answer in terms of $\pi$.",
        f"In {name} with side ${side}$ {why}. The areas of the circles are ${pi(outside)}$ and "
        rf"${pi(inside)}$, and their difference is "
        rf"${box(pi(outside - inside))}$.",
    )


@geometry(5)
def _tetrahedron_corner(rng: random.Random) -> Problem:
    a, b, c = sorted(rng.randint(1, 9) for _ in range(3))
    square = a * a * b * b + b * b * c * c + c * c * a * a
    outer, inner = square_part(square)
    value = surd(inner, Fraction(a * b * c, outer * inner)) if inner > 1 else frac(Fraction(a * b * c, outer))
    return Problem(
        (a, b, c),
        "Three edges of a tetrahedron meet at a vertex $V$ at right angles to each other; their lengths are "
        f"${a}$, ${b}$ and ${c}$. What is the "
        "distance from $V$ to the opposite face? Express your answer in simplest radical form.",
        rf"The volume is $\frac{{1}}{{6}} \cdot {a} \cdot {b} \cdot {c}$. The square of the area of the "
        rf"opposite face is the sum of the squares of the other "
        rf"three face areas, $\frac{{1}}{{4}}({a * a * b * b} + {b * b * c * c} + {a * a * c * c}) = "
        rf"\frac{{{square}}}{{4}}$. The distance is three times the "
        rf"volume over this area, $\frac{{{a * b * c}}}{{\sqrt{{{square}}}}}$, which is ${box(value)}$.",
    )


CIRC = r"^\circ"
