"""Templates of number theory: divisibility, primes, bases, congruences."""

import math
import random

from envs_data.build.math.latex import box, factorised, listed, product
from envs_data.build.math.template_registry import Problem, Subject

number_theory = Subject("Number Theory")
PRIMES = (2, 3, 5, 7, 11, 13)
DIGITS = "0123456789"


def _factors(rng: random.Random, primes: int, most: int) -> dict[int, int]:
    return {p: rng.randint(1, most) for p in sorted(rng.sample(PRIMES[: primes + 2], primes))}


def _product(factors: dict[int, int]) -> int:
    return math.prod(p**e for p, e in factors.items())


def _in_base(number: int, base: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, base)
        digits = DIGITS[digit] + digits
    return digits


@number_theory(1)
def _greatest_common_divisor(rng: random.Random) -> Problem:
    g = rng.randint(6, 30)
    a, b = rng.choice([(x, y) for x in range(2, 14) for y in range(x + 1, 15) if math.gcd(x, y) == 1])
    x, y = g * a, g * b
    steps, p, q = [], y, x
    while q:
        steps.append(rf"${p} = {p // q} \cdot {q} + {p % q}$")
        p, q = q, p % q
    return Problem(
        (x, y),
        f"What is the greatest common divisor of ${x}$ and ${y}$?",
        f"By the Euclidean algorithm, {', '.join(steps)}. The last divisor is the greatest common divisor, ${box(g)}$.",
    )


@number_theory(1)
def _remainder(rng: random.Random) -> Problem:
    a, b, c, m = (rng.randint(31, 99), rng.randint(31, 99), rng.randint(31, 99), rng.randint(5, 13))
    value = (a * b + c) % m
    reduced = (a % m) * (b % m) + c % m
    return Problem(
        (a, b, c, m),
        rf"What is the remainder when ${a} \cdot {b} + {c}$ is divided by ${m}$?",
        rf"Modulo ${m}$ we have ${a} \equiv {a % m}$, ${b} \equiv {b % m}$ and ${c} \equiv {c % m}$. So the "
        rf"expression is "
        rf"congruent to ${a % m} \cdot {b % m} + {c % m} = {reduced}$, which leaves the remainder "
        rf"${box(value)}$.",
    )


@number_theory(1)
def _largest_prime_factor(rng: random.Random) -> Problem:
    factors = _factors(rng, 3, 2)
    n = _product(factors)
    return Problem(
        (n,),
        f"What is the largest prime factor of ${n}$?",
        f"The prime factorization is ${n} = {factorised(factors)}$, so the largest prime factor is "
        rf"${box(max(factors))}$.",
    )


@number_theory(2)
def _number_of_divisors(rng: random.Random) -> Problem:
    factors = _factors(rng, 3, 4)
    n, count = _product(factors), math.prod(e + 1 for e in factors.values())
    terms = r" \cdot ".join(f"({e} + 1)" for _, e in sorted(factors.items()))
    return Problem(
        (n,),
        f"How many positive divisors does ${n}$ have?",
        f"Since ${n} = {factorised(factors)}$, a divisor is fixed by one exponent for each prime, chosen "
        rf"from "
        rf"$0$ up to the exponent in ${n}$. There are ${terms} = {box(count)}$ divisors.",
    )


@number_theory(2)
def _to_base_ten(rng: random.Random) -> Problem:
    base, length = rng.randint(3, 9), rng.randint(3, 5)
    value = rng.randint(base ** (length - 1), base**length - 1)
    text = _in_base(value, base)
    terms = " + ".join(rf"{d} \cdot {base}^{length - 1 - i}" for i, d in enumerate(text))
    return Problem(
        (base, value),
        f"Express ${text}_{base}$ in base 10.",
        rf"${text}_{base} = {terms} = {box(value)}$.",
    )


@number_theory(2)
def _to_other_base(rng: random.Random) -> Problem:
    base, value = rng.randint(3, 9), rng.randint(100, 900)
    text = _in_base(value, base)
    steps, n = [], value
    while n:
        steps.append(rf"${n} = {n // base} \cdot {base} + {n % base}$")
        n //= base
    return Problem(
        (base, value),
        f"Write the base 10 number ${value}$ in base ${base}$. Give your answer with the base as a subscript.",
        f"Dividing by ${base}$ again and again, {', '.join(steps)}. Reading the remainders from last to "
        f"first, "
        rf"${value} = {box(f'{text}_{base}')}$.",
    )


@number_theory(3)
def _units_digit(rng: random.Random) -> Problem:
    a, n = rng.choice([x for x in range(12, 99) if x % 10 in (2, 3, 7, 8)]), rng.randint(25, 400)
    cycle = [pow(a, k, 10) for k in (1, 2, 3, 4)]
    r = n % 4
    return Problem(
        (a, n),
        f"What is the units digit of ${a}^{{{n}}}$?",
        f"The units digits of the powers of ${a}$ repeat every four powers: {listed(cycle)}. "
        rf"Since ${n} = 4 \cdot {n // 4} + {r}$, the units digit is the "
        rf"{('fourth', 'first', 'second', 'third')[r]} of "
        rf"these, ${box(cycle[r - 1])}$.",
    )


@number_theory(3)
def _sum_of_divisors(rng: random.Random) -> Problem:
    factors = _factors(rng, 3, 2)
    n = _product(factors)
    sums = {p: sum(p**k for k in range(e + 1)) for p, e in factors.items()}
    terms = "".join(f"({' + '.join(str(p**k) for k in range(e + 1))})" for p, e in factors.items())
    return Problem(
        (n,),
        f"What is the sum of all positive divisors of ${n}$?",
        f"Since ${n} = {factorised(factors)}$, every divisor appears once when the product ${terms}$ is "
        rf"multiplied out. "
        rf"The sum is ${product(sums.values())} = {box(math.prod(sums.values()))}$.",
    )


@number_theory(3)
def _inverse(rng: random.Random) -> Problem:
    m = rng.choice((17, 19, 23, 26, 29, 31, 35, 37, 41, 43))
    a = rng.choice([x for x in range(3, m - 1) if math.gcd(x, m) == 1])
    value = pow(a, -1, m)
    return Problem(
        (a, m),
        rf"Find the inverse of ${a}$ modulo ${m}$. Give the answer as an integer from $1$ to ${m - 1}$.",
        rf"We look for $x$ with ${a}x \equiv 1 \pmod{{{m}}}$. Since ${a} \cdot {value} = {a * value} = "
        rf"{a * value // m} \cdot {m} + 1$, the inverse is ${box(value)}$.",
    )


@number_theory(3)
def _missing_digit(rng: random.Random) -> Problem:
    a, b, c, d = rng.randint(1, 9), rng.randint(0, 9), rng.randint(0, 9), rng.randint(0, 9)
    known = a + b + c + d
    while known % 9 == 0:
        d = rng.randint(0, 9)
        known = a + b + c + d
    value = -known % 9
    return Problem(
        (a, b, c, d),
        "The five-digit number "
        rf"$\underline{{{a}}}\,\underline{{{b}}}\,\underline{{X}}\,\underline{{{c}}}\,\underline{{{d}}}$ "
        "is divisible by $9$. What is the digit $X$?",
        "A number is divisible by $9$ exactly when the sum of its digits is. The known digits add up to "
        rf"${known}$, so "
        rf"${known} + X$ must be a multiple of $9$. The only such digit is $X = {box(value)}$.",
    )


@number_theory(4)
def _two_congruences(rng: random.Random) -> Problem:
    m, n = rng.choice([(x, y) for x in range(5, 16) for y in range(x + 1, 20) if math.gcd(x, y) == 1])
    a, b = rng.randint(1, m - 1), rng.randint(1, n - 1)
    value = next(v for v in range(b, m * n, n) if v % m == a)
    k = (value - b) // n
    return Problem(
        (m, a, n, b),
        f"What is the least positive integer that leaves the remainder ${a}$ when divided by ${m}$ and the "
        f"remainder "
        f"${b}$ when divided by ${n}$?",
        rf"Numbers with remainder ${b}$ modulo ${n}$ are $x = {n}k + {b}$. We need ${n}k + {b} \equiv {a} "
        rf"\pmod{{{m}}}$, or "
        rf"${n % m}k \equiv {(a - b) % m} \pmod{{{m}}}$. The least solution is $k = {k}$, so "
        rf"$x = {n} \cdot {k} + {b} = {box(value)}$.",
    )


@number_theory(4)
def _trailing_zeros(rng: random.Random) -> Problem:
    n = rng.randint(60, 900)
    parts, power = [], 5
    while power <= n:
        parts.append((power, n // power))
        power *= 5
    terms = " + ".join(rf"\left\lfloor \frac{{{n}}}{{{p}}} \right\rfloor" for p, _ in parts)
    return Problem(
        (n,),
        f"How many zeros are at the end of the decimal representation of ${n}!$?",
        rf"There are more factors of $2$ than of $5$, so we count factors of $5$: ${terms} = "
        rf"{' + '.join(str(q) for _, q in parts)} = {box(sum(q for _, q in parts))}$.",
    )


@number_theory(4)
def _power_remainder(rng: random.Random) -> Problem:
    p = rng.choice((7, 11, 13, 17, 19, 23))
    a, n = rng.randint(2, p - 2), rng.randint(50, 500)
    r = n % (p - 1)
    return Problem(
        (a, n, p),
        f"Find the remainder when ${a}^{{{n}}}$ is divided by ${p}$.",
        rf"By Fermat's little theorem ${a}^{{{p - 1}}} \equiv 1 \pmod{{{p}}}$. Since ${n} = {n // (p - 1)} "
        rf"\cdot {p - 1} + {r}$, "
        rf"${a}^{{{n}}} \equiv {a}^{{{r}}} \pmod{{{p}}}$, and ${a}^{{{r}}}$ leaves the remainder "
        rf"${box(pow(a, n, p))}$.",
    )


@number_theory(5)
def _even_or_square_divisors(rng: random.Random) -> Problem:
    factors = {2: rng.randint(2, 5), **{p: rng.randint(1, 4) for p in rng.sample((3, 5, 7), 2)}}
    factors = dict(sorted(factors.items()))
    n = _product(factors)
    halves = [e // 2 + 1 for e in factors.values()]
    return Problem(
        (n,),
        f"How many positive divisors of ${n}$ are perfect squares?",
        f"We have ${n} = {factorised(factors)}$. A divisor is a perfect square when every exponent is even, "
        rf"so the "
        f"exponents of ${', '.join(map(str, factors))}$ can be chosen in ${', '.join(map(str, halves))}$ "
        rf"ways. "
        rf"There are ${product(halves)} = {box(math.prod(halves))}$ such divisors.",
    )


@number_theory(5)
def _chicken_nuggets(rng: random.Random) -> Problem:
    a, b = rng.choice([(x, y) for x in range(4, 16) for y in range(x + 1, 24) if math.gcd(x, y) == 1])
    value = a * b - a - b
    thing = rng.choice(("stamps worth", "bags that weigh", "coins worth"))
    unit = "kilograms" if "bags" in thing else "cents"
    return Problem(
        (a, b),
        f"You have as many {thing} ${a}$ {unit} and ${b}$ {unit} as you like. What is the greatest whole "
        f"number of {unit} "
        "that can not be made with them?",
        "For coprime $a$ and $b$ the greatest number that is not of the form $ax + by$ with nonnegative "
        rf"integers "
        rf"$x, y$ is $ab - a - b$. Here $\gcd({a}, {b}) = 1$, so it is ${a * b} - {a} - {b} = {box(value)}$.",
    )


@number_theory(5)
def _coprime_count(rng: random.Random) -> Problem:
    factors = _factors(rng, 3, 3)
    n = _product(factors)
    value, terms = n, ""
    for p in factors:
        value = value // p * (p - 1)
        terms += rf" \cdot \left(1 - \frac{{1}}{{{p}}}\right)"
    return Problem(
        (n,),
        f"How many of the integers from $1$ to ${n}$ are relatively prime to ${n}$?",
        rf"Since ${n} = {factorised(factors)}$, Euler's totient function gives $\phi({n}) = {n}{terms} = "
        rf"{box(value)}$.",
    )


@number_theory(5)
def _bounded_solutions(rng: random.Random) -> Problem:
    a, b = rng.choice([(x, y) for x in range(2, 9) for y in range(x + 1, 12) if math.gcd(x, y) == 1])
    n = rng.randint(80, 260)
    solutions = [(x, (n - a * x) // b) for x in range(1, n // a + 1) if (n - a * x) % b == 0 and n - a * x > 0]
    first, last = solutions[0], solutions[-1]
    return Problem(
        (a, b, n),
        f"How many ordered pairs of positive integers $(x, y)$ satisfy ${a}x + {b}y = {n}$?",
        rf"The solution with the least positive $x$ is $({first[0]}, {first[1]})$. Since $\gcd({a}, {b}) = "
        rf"1$, all others come from "
        f"adding ${b}$ to $x$ and subtracting ${a}$ from $y$. The last one with $y > 0$ is $({last[0]}, "
        rf"{last[1]})$, so there are "
        rf"$\frac{{{last[0]} - {first[0]}}}{{{b}}} + 1 = {box(len(solutions))}$ pairs.",
    )
