"""Templates of AIME-style number theory problems."""

import math
import random

from envs_data.build.aime.problem_draft import contest
from envs_data.build.draft import Draft
from envs_data.build.math.latex import factorised, listed, product


def _last_three_digits(rng: random.Random) -> Draft:
    base, n, add = rng.choice((3, 7, 9, 11, 13, 17, 19, 21, 23)), rng.randint(30, 400), rng.randint(1, 99)
    power = pow(base, n, 1000)
    return contest(
        (base, n, add),
        f"Find the remainder when ${base}^{{{n}}} + {add}$ is divided by $1000$.",
        rf"Since $\gcd({base}, 1000) = 1$, Carmichael's theorem gives ${base}^{{100}} \equiv 1 "
        rf"\pmod{{1000}}$, so ${base}^{{{n}}} \equiv {base}^{{{n % 100}}}$. "
        rf"Repeated squaring gives ${base}^{{{n % 100}}} \equiv {power} \pmod{{1000}}$. Adding ${add}$ gives "
        rf"the remainder",
        (power + add) % 1000,
    )


def _or_but_not(rng: random.Random) -> Draft:
    a, b, c = rng.sample((4, 6, 9, 10, 14, 15, 21, 22, 25, 35), 3)
    n = rng.randint(10, 40) * 100
    ab, ac, bc, abc = math.lcm(a, b), math.lcm(a, c), math.lcm(b, c), math.lcm(a, b, c)
    either, both = n // a + n // b - n // ab, n // ac + n // bc - n // abc
    return contest(
        (*sorted((a, b)), c, n),
        f"How many positive integers not greater than ${n}$ are divisible by ${a}$ or by ${b}$, but not by ${c}$?",
        f"By inclusion and exclusion ${n // a} + {n // b} - {n // ab} = {either}$ of them are divisible by "
        rf"${a}$ or ${b}$. Of these, "
        f"${n // ac} + {n // bc} - {n // abc} = {both}$ are also divisible by ${c}$. So the number is "
        rf"${either} - {both}$, which is",
        either - both,
    )


def _divides_square(rng: random.Random) -> Draft:
    a, b = rng.randint(3, 12), rng.randint(1, 60)
    key = a * a + b
    divisors = [d for d in range(a + 1, key + 1) if key % d == 0]
    return contest(
        (a, b),
        f"Find the sum of all positive integers $n$ for which $n + {a}$ divides $n^2 + {b}$.",
        f"We have $n^2 + {b} = (n + {a})(n - {a}) + {key}$, so $n + {a}$ must be a divisor of ${key}$ "
        rf"greater than ${a}$. These divisors are "
        rf"{listed([f'${d}$' for d in divisors])}. Subtracting ${a}$ from each and adding up gives",
        sum(d - a for d in divisors),
    )


def _three_remainders(rng: random.Random) -> Draft:
    a, b, c = rng.choice(
        (
            (5, 7, 9),
            (7, 9, 11),
            (7, 8, 9),
            (5, 9, 11),
            (7, 10, 11),
            (8, 9, 13),
            (5, 11, 13),
            (7, 9, 13),
            (4, 9, 25),
        )
    )
    value = rng.randint(100, min(a * b * c - 1, 999))
    first = next(v for v in range(b * c) if v % b == value % b and v % c == value % c)
    return contest(
        (a, b, c, value),
        f"Find the least positive integer that leaves the remainders ${value % a}$, ${value % b}$ and "
        f"${value % c}$ when divided by ${a}$, ${b}$ and ${c}$ respectively.",
        rf"The conditions modulo ${b}$ and ${c}$ mean $x \equiv {first} \pmod{{{b * c}}}$. Among ${first}, "
        rf"{first + b * c}, {first + 2 * b * c}, \ldots$ the first number that leaves the "
        rf"remainder ${value % a}$ modulo ${a}$ is",
        value,
    )


def _unit_fractions(rng: random.Random) -> Draft:
    factors = {p: rng.randint(1, 3) for p in rng.sample((2, 3, 5, 7, 11), rng.randint(2, 4))}
    n = math.prod(p**e for p, e in factors.items())
    while n > 9000:
        factors = {p: rng.randint(1, 2) for p in rng.sample((2, 3, 5, 7, 11), rng.randint(2, 4))}
        n = math.prod(p**e for p, e in factors.items())
    terms = product(2 * e + 1 for _, e in sorted(factors.items()))
    return contest(
        (n,),
        rf"How many ordered pairs $(x, y)$ of positive integers satisfy $\frac{{1}}{{x}} + \frac{{1}}{{y}} = "
        rf"\frac{{1}}{{{n}}}$?",
        f"The equation is equivalent to $(x - {n})(y - {n}) = {n}^2$ with both factors positive, so there "
        rf"is one pair for each divisor of ${n}^2$. Since "
        rf"${n} = {factorised(factors)}$, the number of divisors of ${n}^2$ is ${terms}$, that is",
        math.prod(2 * e + 1 for e in factors.values()),
    )


def _squares_or_cubes(rng: random.Random) -> Draft:
    exponents = [rng.randint(4, 13), rng.randint(3, 11), rng.randint(3, 9)]
    primes = rng.choice(((2, 3, 5), (2, 3, 7), (2, 5, 7), (3, 5, 7)))
    factors = dict(zip(primes, exponents, strict=True))

    def count(k: int) -> int:
        return math.prod(e // k + 1 for e in exponents)

    return contest(
        tuple(exponents),
        f"How many positive divisors of ${factorised(factors)}$ are perfect squares or perfect cubes (or both)?",
        "A divisor is a perfect $k$th power when all its exponents are multiples of $k$. There are "
        rf"${product(e // 2 + 1 for e in exponents)} = {count(2)}$ squares, "
        f"${product(e // 3 + 1 for e in exponents)} = {count(3)}$ cubes and "
        f"${product(e // 6 + 1 for e in exponents)} = {count(6)}$ sixth powers, which are counted twice. So "
        rf"the number is "
        rf"${count(2)} + {count(3)} - {count(6)}$, which equals",
        count(2) + count(3) - count(6),
    )


def _digit_sum(rng: random.Random) -> Draft:
    digits, total = rng.choice((4, 5)), rng.randint(5, 14)
    while math.comb(total + digits - 2, digits - 1) > 999:
        total = rng.randint(5, 14)
    value = 0
    for j in range(digits + 1):
        for first in (0, 1):
            # stars and bars with the leading digit at least 1 and every digit at most 9
            rest = total - 1 - 9 * first - 10 * (j - first)
            if 0 <= j - first <= digits - 1 and rest >= 0:
                value += (-1) ** j * math.comb(digits - 1, j - first) * math.comb(rest + digits - 1, digits - 1)
    free, large = math.comb(total + digits - 2, digits - 1), math.comb(total + digits - 2, digits - 1) - value
    return contest(
        (digits, total),
        f"How many {('four', 'five')[digits - 4]}-digit positive integers have digits that add up to ${total}$?",
        "The first digit is at least $1$. Without the condition that digits are at most $9$ there are "
        rf"$\binom{{{total + digits - 2}}}{{{digits - 1}}} = {free}$ solutions. Of these, ${large}$ have a "
        rf"digit "
        "greater than $9$. The number is",
        value,
    )


def _base_palindrome(rng: random.Random) -> Draft:
    base, step = rng.randint(3, 9), rng.randint(3, 13)
    numbers = [a * (base * base + 1) + b * base for a in range(1, base) for b in range(base)]
    good = [n for n in numbers if n % step == 0]
    while not good:
        step = rng.randint(3, 13)
        good = [n for n in numbers if n % step == 0]
    return contest(
        (base, step),
        f"How many positive integers are divisible by ${step}$ and are written in base ${base}$ with exactly "
        f"three digits that read the same forward and backward?",
        rf"Such a number is $\overline{{aba}}_{base} = {base * base + 1}a + {base}b$ with $1 \le a \le "
        rf"{base - 1}$ and $0 \le b \le {base - 1}$. We need ${(base * base + 1) % step}a + {base % step}b "
        rf"\equiv 0 "
        rf"\pmod{{{step}}}$. Going through the values of $a$ and counting the possible $b$ gives a total of",
        len(good),
    )


TEMPLATES = (
    _last_three_digits,
    _or_but_not,
    _divides_square,
    _three_remainders,
    _unit_fractions,
    _squares_or_cubes,
    _digit_sum,
    _base_palindrome,
)
