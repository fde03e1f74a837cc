"""Templates of AIME-style counting and probability problems."""

import math
import random
from fractions import Fraction

from envs_data.build.aime.problem_draft import contest
from envs_data.build.draft import Draft
from envs_data.build.math.latex import listed

LOWEST = (
    r"can be written as $\frac{m}{n}$, where $m$ and $n$ are relatively prime positive integers. "
    "Find $m + n$."
)


def _no_repeated_letter(rng: random.Random) -> Draft:
    letters, length = rng.randint(3, 6), rng.randint(4, 8)
    one = rng.choice("ABC")
    counts = [1, letters]
    for _ in range(length - 1):
        counts.append((letters - 1) * (counts[-1] + counts[-2]))
    return contest(
        (letters, length),
        f"How many strings of length ${length}$ made of the first ${letters}$ letters of the alphabet do not "
        f"contain the letter {one} twice in a row?",
        "Let $a_k$ be the number of such strings of length $k$. Such a string ends in one of the other "
        rf"${letters - 1}$ letters after any good string, or in another letter followed by {one}. So "
        f"$a_k = {letters - 1}(a_{{k-1}} + a_{{k-2}})$ with $a_0 = 1$ and $a_1 = {letters}$. The values "
        rf"from $a_2$ on are {listed([f'${c}$' for c in counts[2:]])}; the number is",
        counts[length],
    )


def _separated_subsets(rng: random.Random) -> Draft:
    n, k, gap = rng.randint(10, 20), rng.randint(3, 5), rng.randint(2, 3)
    free = n - (k - 1) * (gap - 1)
    while free < k + 2:
        n = rng.randint(12, 20)
        free = n - (k - 1) * (gap - 1)
    return contest(
        (n, k, gap),
        rf"How many subsets of $\{{1, 2, \ldots, {n}\}}$ have exactly ${k}$ elements, any two of which "
        rf"differ by at least ${gap}$?",
        rf"Write the elements in increasing order and subtract $0, {gap - 1}, {2 * (gap - 1)}, \ldots$ from "
        rf"them. This makes a one-to-one correspondence with the ${k}$-element subsets of "
        rf"$\{{1, \ldots, {free}\}}$. Their number $\binom{{{free}}}{{{k}}}$ is",
        math.comb(free, k),
    )


def _sum_multiple_of_three(rng: random.Random) -> Draft:
    n = rng.randint(9, 30)
    sizes = [n // 3, (n + 2) // 3, (n + 1) // 3]
    value = sum(math.comb(s, 3) for s in sizes) + math.prod(sizes)
    return contest(
        (n,),
        rf"How many three-element subsets of $\{{1, 2, \ldots, {n}\}}$ have a sum that is divisible by $3$?",
        f"The numbers leave the remainders $0, 1, 2$ modulo $3$ in ${sizes[0]}$, ${sizes[1]}$ and "
        f"${sizes[2]}$ cases. The three elements must all leave the same remainder, or three different "
        rf"ones: "
        rf"$\binom{{{sizes[0]}}}{{3}} + \binom{{{sizes[1]}}}{{3}} + \binom{{{sizes[2]}}}{{3}} + {sizes[0]} "
        rf"\cdot {sizes[1]} \cdot {sizes[2]}$, which is",
        value,
    )


def _below_diagonal(rng: random.Random) -> Draft:
    n = rng.randint(5, 11)
    m = rng.randint(2, n - 1)
    total, bad = math.comb(n + m, m), math.comb(n + m, m - 1)
    return contest(
        (n, m),
        f"In an election candidate $A$ gets ${n}$ votes and candidate $B$ gets ${m}$. In how many orders can "
        f"the votes be counted so that $A$ is never behind $B$?",
        rf"There are $\binom{{{n + m}}}{{{m}}} = {total}$ orders. By reflecting the start of an order up to "
        f"the first moment when $B$ leads, the bad orders correspond to all orders with ${n + 1}$ votes for "
        rf"$A$ and "
        rf"${m - 1}$ for $B$; there are $\binom{{{n + m}}}{{{m - 1}}} = {bad}$ of them. The difference is",
        total - bad,
    )


def _two_socks(rng: random.Random) -> Draft:
    counts = sorted(rng.randint(3, 9) for _ in range(3))
    good = sum(math.comb(c, 2) for c in counts)
    total = math.comb(sum(counts), 2)
    value = Fraction(good, total)
    return contest(
        tuple(counts),
        f"A drawer holds ${counts[0]}$ red, ${counts[1]}$ green and ${counts[2]}$ blue socks. Two socks are "
        f"taken out at random. The probability that they have the same color {LOWEST}",
        rf"Of the $\binom{{{sum(counts)}}}{{2}} = {total}$ pairs, "
        f"${' + '.join(str(math.comb(c, 2)) for c in counts)} = {good}$ have one color. In lowest terms the "
        rf"probability is "
        rf"$\frac{{{value.numerator}}}{{{value.denominator}}}$, and $m + n$ equals",
        value.numerator + value.denominator,
    )


def _largest_die(rng: random.Random) -> Draft:
    dice, sides = rng.randint(3, 4), rng.choice((6, 8, 10))
    top = rng.randint(3, sides - 1)
    value = Fraction(top**dice - (top - 1) ** dice, sides**dice)
    return contest(
        (dice, sides, top),
        f"{('Three', 'Four')[dice - 3]} fair {sides}-sided dice with faces $1, 2, \\ldots, {sides}$ are "
        f"rolled. The probability that the largest number shown is exactly ${top}$ {LOWEST}",
        f"All dice show at most ${top}$ in ${top}^{dice}$ cases and at most ${top - 1}$ in "
        rf"${top - 1}^{dice}$ cases. The probability is "
        rf"$\frac{{{top}^{dice} - {top - 1}^{dice}}}{{{sides}^{dice}}} = "
        rf"\frac{{{value.numerator}}}{{{value.denominator}}}$, and $m + n$ equals",
        value.numerator + value.denominator,
    )


def _triples_with_bound(rng: random.Random) -> Draft:
    n, bound = rng.randint(15, 40), rng.randint(6, 20)
    while bound * 3 < n or bound >= n:
        n, bound = rng.randint(15, 40), rng.randint(6, 20)
    rest = n - bound - 1
    terms = [
        math.comb(n + 2, 2),
        3 * math.comb(rest + 2, 2),
        3 * math.comb(rest - bound + 1, 2) if rest >= bound + 1 else 0,
    ]
    third = rf" + 3\binom{{{rest - bound + 1}}}{{2}}" if terms[2] else ""
    return contest(
        (n, bound),
        rf"How many ordered triples $(a, b, c)$ of integers with $0 \le a, b, c \le {bound}$ satisfy $a + b "
        rf"+ c = {n}$?",
        rf"Without the upper bound there are $\binom{{{n + 2}}}{{2}}$ triples. Removing those in which a "
        rf"number exceeds ${bound}$ by inclusion and exclusion leaves "
        rf"$\binom{{{n + 2}}}{{2}} - 3\binom{{{rest + 2}}}{{2}}{third}$, which is",
        terms[0] - terms[1] + terms[2],
    )


def _stairs(rng: random.Random) -> Draft:
    n = rng.randint(8, 13)
    broken = rng.randint(3, n - 2)
    ways = [1]
    for i in range(1, n + 1):
        ways.append(0 if i == broken else sum(ways[max(0, i - 3) : i]))
    return contest(
        (n, broken),
        f"A staircase has ${n}$ steps. Lena climbs it by going up one, two or three steps at a time, but she "
        f"may not tread on step ${broken}$, which is broken. In how many ways can she reach the top step?",
        f"Let $w_i$ be the number of ways to reach step $i$, with $w_0 = 1$. Then $w_{{{broken}}} = 0$, and "
        rf"otherwise $w_i$ is the sum of the three previous values. The values $w_1, w_2, \ldots$ are "
        rf"{listed([f'${w}$' for w in ways[1:]])}. The last of them is",
        ways[n],
    )


TEMPLATES = (
    _no_repeated_letter,
    _separated_subsets,
    _sum_multiple_of_three,
    _below_diagonal,
    _two_socks,
    _largest_die,
    _triples_with_bound,
    _stairs,
)
