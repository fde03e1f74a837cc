"""Templates of prealgebra: arithmetic, fractions, percentages, averages, ratios, rates."""

import math
import random
from fractions import Fraction

from envs_data.build.math.latex import box, decimal, frac, listed
from envs_data.build.math.template_registry import Problem, Subject

prealgebra = Subject("Prealgebra")


@prealgebra(1)
def _order_of_operations(rng: random.Random) -> Problem:
    a, b, c, e, q = (
        rng.randint(11, 60),
        rng.randint(3, 12),
        rng.randint(3, 12),
        rng.randint(2, 9),
        rng.randint(2, 12),
    )
    value = a + b * c - q
    return Problem(
        (a, b, c, e, q),
        rf"Compute ${a} + {b} \cdot {c} - {q * e} \div {e}$.",
        rf"Multiplication and division come first: ${b} \cdot {c} = {b * c}$ and ${q * e} \div {e} = {q}$. "
        rf"So the value is ${a} + {b * c} - {q} = {box(value)}$.",
    )


@prealgebra(1)
def _percent_of(rng: random.Random) -> Problem:
    percent, base = rng.choice((5, 12, 15, 20, 24, 30, 35, 40, 45, 60, 75, 80, 85)), rng.randint(2, 24) * 20
    value = Fraction(percent * base, 100)
    return Problem(
        (percent, base),
        rf"What is ${percent}\%$ of ${base}$?",
        rf"${percent}\%$ of a number is $\frac{{{percent}}}{{100}}$ of it, so the answer is "
        rf"$\frac{{{percent}}}{{100}} \cdot {base} = {box(decimal(value))}$.",
    )


@prealgebra(1)
def _feet_and_inches(rng: random.Random) -> Problem:
    feet, inches, pieces = rng.randint(3, 15), rng.randint(1, 11), rng.randint(2, 4)
    total = (12 * feet + inches) * pieces
    return Problem(
        (feet, inches, pieces),
        f"A board is {feet} feet and {inches} inches long. What is the total length, in inches, of {pieces} "
        f"such "
        "boards laid end to end?",
        rf"One board is $12 \cdot {feet} + {inches} = {12 * feet + inches}$ inches long, so {pieces} boards "
        rf"have a "
        rf"total length of ${pieces} \cdot {12 * feet + inches} = {box(total)}$ inches.",
    )


@prealgebra(2)
def _sum_of_fractions(rng: random.Random) -> Problem:
    b, d = rng.sample((3, 4, 5, 6, 7, 8, 9, 10, 12), 2)
    a, c = rng.randint(1, b - 1), rng.randint(1, d - 1)
    common = math.lcm(b, d)
    value = Fraction(a, b) + Fraction(c, d)
    top = f"{a * common // b} + {c * common // d}"
    return Problem(
        (a, b, c, d),
        rf"Compute $\frac{{{a}}}{{{b}}} + \frac{{{c}}}{{{d}}}$. Express your answer as a common fraction in "
        rf"lowest "
        "terms.",
        rf"The least common denominator of ${b}$ and ${d}$ is ${common}$, so the sum is "
        rf"$\frac{{{top}}}{{{common}}} = {box(frac(value))}$.",
    )


@prealgebra(2)
def _missing_score(rng: random.Random) -> Problem:
    scores = [rng.randint(71, 99) for _ in range(4)]
    mean = rng.randint(80, 92)
    value = 5 * mean - sum(scores)
    while not 40 <= value <= 100:
        scores = [rng.randint(71, 99) for _ in range(4)]
        value = 5 * mean - sum(scores)
    return Problem(
        (tuple(sorted(scores)), mean),
        f"On her first four tests Priya scored {listed(scores)}. What must she score on the fifth test so "
        f"that the "
        f"average of all five scores is {mean}?",
        rf"The five scores must add up to $5 \cdot {mean} = {5 * mean}$. The first four add up to "
        rf"${sum(scores)}$, so "
        rf"the fifth must be ${5 * mean} - {sum(scores)} = {box(value)}$.",
    )


@prealgebra(2)
def _ratio_share(rng: random.Random) -> Problem:
    a, b = rng.choice([(x, y) for x in range(2, 10) for y in range(2, 10) if math.gcd(x, y) == 1 and x != y])
    unit = rng.randint(3, 15)
    total = (a + b) * unit
    return Problem(
        (a, b, unit),
        f"The ratio of red tiles to blue tiles in a mosaic is ${a}:{b}$. If there are {total} red and blue "
        f"tiles "
        "altogether, how many tiles are red?",
        rf"Red tiles make up $\frac{{{a}}}{{{a} + {b}}} = \frac{{{a}}}{{{a + b}}}$ of all tiles, which is "
        rf"$\frac{{{a}}}{{{a + b}}} \cdot {total} = {box(a * unit)}$ tiles.",
    )


@prealgebra(3)
def _two_percent_changes(rng: random.Random) -> Problem:
    up, down = rng.choice((10, 20, 25, 40, 50, 60)), rng.choice((10, 15, 20, 25, 30, 40))
    price = rng.randint(2, 30) * 10
    middle = Fraction(price * (100 + up), 100)
    final = middle * (100 - down) / 100
    thing = rng.choice(("jacket", "bicycle", "desk", "painting"))
    return Problem(
        (up, down, price),
        rf"The price of a {thing} is {price} dollars. The price is raised by ${up}\%$, and then the new "
        rf"price is "
        rf"lowered by ${down}\%$. What is the final price, in dollars?",
        rf"After the increase the price is ${price} \cdot {decimal(Fraction(100 + up, 100))} = "
        rf"{decimal(middle)}$ "
        rf"dollars. Lowering that by ${down}\%$ leaves ${decimal(middle)} \cdot "
        rf"{decimal(Fraction(100 - down, 100))} = "
        rf"{box(decimal(final))}$ dollars.",
    )


@prealgebra(3)
def _lights_flash(rng: random.Random) -> Problem:
    a, b, c = sorted(rng.sample((4, 6, 8, 9, 10, 12, 14, 15, 18, 20, 21, 24), 3))
    value = math.lcm(a, b, c)
    return Problem(
        (a, b, c),
        f"Three lights flash together at noon. After that they flash every {a}, {b} and {c} seconds "
        f"respectively. "
        "After how many seconds do all three first flash together again?",
        f"They flash together after every common multiple of ${a}$, ${b}$ and ${c}$. The least common "
        f"multiple of "
        f"${a}$ and ${b}$ is ${math.lcm(a, b)}$, and that of ${math.lcm(a, b)}$ and ${c}$ is "
        rf"${box(value)}$.",
    )


@prealgebra(3)
def _angle_ratio(rng: random.Random) -> Problem:
    a, b = rng.choice([(x, y) for x in range(1, 12) for y in range(x + 1, 14) if math.gcd(x, y) == 1])
    whole, word = rng.choice(((90, "complementary"), (180, "supplementary")))
    value = Fraction(whole * b, a + b)
    return Problem(
        (a, b, whole),
        f"Two {word} angles have measures in the ratio ${a}:{b}$. What is the measure, in degrees, of the "
        f"larger angle? "
        "Express your answer as a fraction or an integer.",
        rf"Let the angles measure ${'' if a == 1 else a}x$ and ${b}x$ degrees. Since they are {word}, "
        rf"${a + b}x = {whole}$, so $x = {frac(Fraction(whole, a + b))}$. The larger angle measures "
        rf"${b} \cdot {frac(Fraction(whole, a + b))} = {box(frac(value))}$ degrees.",
    )


@prealgebra(3)
def _map_scale(rng: random.Random) -> Problem:
    inches, miles, asked = rng.randint(2, 9), rng.randint(5, 60), rng.randint(3, 20)
    value = Fraction(miles * asked, inches)
    return Problem(
        (inches, miles, asked),
        f"On a map, {inches} inches stand for {miles} miles. How many miles do {asked} inches stand for? "
        f"Express your "
        "answer as a fraction in lowest terms or as an integer.",
        rf"One inch stands for ${frac(Fraction(miles, inches))}$ miles, so {asked} inches stand for "
        rf"${asked} \cdot {frac(Fraction(miles, inches))} = {box(frac(value))}$ miles.",
    )


@prealgebra(4)
def _money_left(rng: random.Random) -> Problem:
    first, second = Fraction(1, rng.randint(3, 6)), Fraction(rng.randint(2, 4), 5)
    left = (1 - first) * (1 - second)
    start = left.denominator * rng.randint(2, 12)
    return Problem(
        (first, second, start),
        f"Marta spent ${frac(first)}$ of her money on a coat and then ${frac(second)}$ of what was left on "
        rf"shoes. "
        f"She has {start * left} dollars left. How many dollars did she have at first?",
        rf"After the coat she has $1 - {frac(first)} = {frac(1 - first)}$ of her money. She keeps "
        rf"$1 - {frac(second)} = {frac(1 - second)}$ of that, which is "
        rf"${frac(1 - first)} \cdot {frac(1 - second)} = {frac(left)}$ of the money. So she started with "
        rf"${start * left} \div {frac(left)} = {box(start)}$ dollars.",
    )


@prealgebra(4)
def _removed_number(rng: random.Random) -> Problem:
    n, mean, new = rng.randint(5, 12), rng.randint(15, 50), rng.randint(10, 55)
    value = n * mean - (n - 1) * new
    while new == mean or value <= 0:
        new = rng.randint(10, 55)
        value = n * mean - (n - 1) * new
    return Problem(
        (n, mean, new),
        f"The average of {n} numbers is {mean}. When one of the numbers is removed, the average of the "
        f"remaining "
        f"{n - 1} numbers is {new}. What number was removed?",
        rf"The {n} numbers add up to ${n} \cdot {mean} = {n * mean}$. The remaining {n - 1} numbers add up "
        rf"to "
        rf"${n - 1} \cdot {new} = {(n - 1) * new}$. The removed number is ${n * mean} - {(n - 1) * new} = "
        rf"{box(value)}$.",
    )


@prealgebra(4)
def _area_percent(rng: random.Random) -> Problem:
    up, down = rng.choice((10, 20, 30, 40, 50, 60, 70, 80)), rng.choice((10, 20, 30, 40, 50))
    factor = Fraction(100 + up, 100) * Fraction(100 - down, 100)
    while factor == 1:
        up = rng.choice((10, 20, 30, 40, 60, 70, 80))
        factor = Fraction(100 + up, 100) * Fraction(100 - down, 100)
    change = abs(factor - 1) * 100
    change_text = decimal(change) + r"\%"
    word = "increase" if factor > 1 else "decrease"
    return Problem(
        (up, down),
        rf"The length of a rectangle is increased by ${up}\%$ and its width is decreased by ${down}\%$. By "
        rf"what percent "
        f"does the area {word}?",
        rf"The area is multiplied by ${decimal(Fraction(100 + up, 100))} \cdot "
        rf"{decimal(Fraction(100 - down, 100))} = "
        rf"{decimal(factor)}$. That is {'an' if word == 'increase' else 'a'} {word} of ${box(change_text)}$.",
    )


@prealgebra(5)
def _average_speed(rng: random.Random) -> Problem:
    out, back = rng.sample((24, 30, 36, 40, 45, 50, 54, 60, 64, 72, 75, 80, 90), 2)
    value = Fraction(2 * out * back, out + back)
    return Problem(
        (out, back),
        f"A truck drives from one town to another at {out} miles per hour and returns along the same road at "
        f"{back} "
        "miles per hour. What is its average speed for the whole trip, in miles per hour? Express your "
        "answer as a "
        "fraction in lowest terms or as an integer.",
        rf"Let the road be $d$ miles long. The trip of $2d$ miles takes $\frac{{d}}{{{out}}} + "
        rf"\frac{{d}}{{{back}}} = "
        rf"\frac{{{out + back}d}}{{{out * back}}}$ hours, so the average speed is "
        rf"$2 \cdot \frac{{{out * back}}}{{{out + back}}} = {box(frac(value))}$ miles per hour.",
    )


@prealgebra(5)
def _page_digits(rng: random.Random) -> Problem:
    pages = rng.randint(110, 980)
    value = 9 + 180 + 3 * (pages - 99)
    return Problem(
        (pages,),
        f"The pages of a book are numbered from 1 to {pages}. How many digits are printed in all the page numbers?",
        rf"Pages 1 to 9 need $9$ digits and pages 10 to 99 need $90 \cdot 2 = 180$ digits. The remaining "
        f"${pages} - 99 = {pages - 99}$ pages have three digits each, which is ${3 * (pages - 99)}$ digits. "
        rf"In all "
        rf"there are $9 + 180 + {3 * (pages - 99)} = {box(value)}$ digits.",
    )


@prealgebra(5)
def _mixture(rng: random.Random) -> Problem:
    weak, strong = rng.choice(((10, 40), (15, 60), (20, 50), (5, 30), (12, 36), (25, 70)))
    litres, target = rng.randint(2, 20), rng.randint(weak + 2, strong - 2)
    value = Fraction(litres * (target - weak), strong - target)
    return Problem(
        (weak, strong, litres, target),
        rf"How many liters of a ${strong}\%$ salt solution must be added to ${litres}$ liters of a "
        rf"${weak}\%$ salt "
        rf"solution to get {'an' if target in (8, 11, 18) else 'a'} ${target}\%$ salt solution? Express your "
        rf"answer as a fraction in lowest terms or as an "
        "integer.",
        rf"Let $x$ be the number of liters added. Comparing the amounts of salt gives "
        rf"${weak} \cdot {litres} + {strong}x = {target}({litres} + x)$, so ${strong - target}x = "
        rf"{litres * (target - weak)}$ and $x = {box(frac(value))}$.",
    )
