"""Templates of counting and probability: arrangements, selections, dice, cards, walks, expectation."""

import math
import random
from fractions import Fraction

from envs_data.build.math.latex import box, decimal, frac, reduced
from envs_data.build.math.template_registry import Problem, Subject

counting = Subject("Counting & Probability")
COLOURS = ("red", "blue", "green", "yellow", "white", "black")
WORDS = (
    "LEVEL",
    "BANANA",
    "COFFEE",
    "LETTER",
    "PEPPER",
    "SUMMER",
    "HAPPEN",
    "PUZZLE",
    "RABBIT",
    "BALLOON",
    "SUCCESS",
    "CABBAGE",
    "ALABAMA",
    "HAWAII",
    "KAYAK",
    "TOMATO",
    "DIVIDED",
    "MINIMUM",
    "ASSESS",
    "CANADA",
    "DRAGGED",
    "SEVENTEEN",
    "TEETER",
    "VOLVO",
    "COCOA",
    "PAPAYA",
    "INDIGO",
    "REFEREE",
)


@counting(1)
def _shelf(rng: random.Random) -> Problem:
    n, k = rng.randint(4, 9), rng.randint(2, 4)
    thing = rng.choice(("books on a shelf", "flags on a pole", "pictures on a wall", "students in a line"))
    noun, place = thing.split(" ", 1)
    terms = r" \cdot ".join(str(n - i) for i in range(k))
    return Problem(
        (n, k),
        f"In how many ways can ${k}$ of ${n}$ different {noun} be placed in a row {place}?",
        f"There are ${n}$ choices for the first place, ${n - 1}$ for the second, and so on. The number of "
        f"ways is "
        rf"${terms} = {box(math.perm(n, k))}$.",
    )


@counting(1)
def _committee(rng: random.Random) -> Problem:
    n, k = rng.randint(5, 14), rng.randint(2, 4)
    top = r" \cdot ".join(str(n - i) for i in range(k))
    bottom = r" \cdot ".join(str(k - i) for i in range(k))
    return Problem(
        (n, k),
        f"How many different committees of ${k}$ people can be chosen from a club with ${n}$ members?",
        rf"The order does not matter, so there are $\binom{{{n}}}{{{k}}} = \frac{{{top}}}{{{bottom}}} = "
        rf"{box(math.comb(n, k))}$ committees.",
    )


@counting(1)
def _one_marble(rng: random.Random) -> Problem:
    counts, colours = [rng.randint(2, 12) for _ in range(3)], rng.sample(COLOURS, 3)
    total = sum(counts)
    return Problem(
        tuple(counts),
        f"A bag holds ${counts[0]}$ {colours[0]}, ${counts[1]}$ {colours[1]} and ${counts[2]}$ {colours[2]} "
        f"marbles. One marble "
        f"is drawn at random. What is the probability that it is not {colours[0]}? Express your answer as a "
        f"common fraction.",
        f"There are ${total}$ marbles, and ${total - counts[0]}$ of them are not {colours[0]}. The "
        rf"probability is "
        f"${reduced(total - counts[0], total)}$.",
    )


@counting(2)
def _rearranged_word(rng: random.Random) -> Problem:
    word = rng.choice(WORDS)
    repeats = {c: word.count(c) for c in sorted(set(word)) if word.count(c) > 1}
    value = math.factorial(len(word))
    for count in repeats.values():
        value //= math.factorial(count)
    bottom = r" \cdot ".join(f"{c}!" for c in repeats.values())
    kinds = ", ".join(f"{c} appears {n} times" for c, n in repeats.items())
    return Problem(
        (word,),
        f"How many different arrangements are there of the letters of the word {word}?",
        f"The word has ${len(word)}$ letters, and {kinds}. Exchanging equal letters changes nothing, so the "
        f"number of "
        rf"arrangements is $\frac{{{len(word)}!}}{{{bottom}}} = {box(value)}$.",
    )


@counting(2)
def _two_dice(rng: random.Random) -> Problem:
    sides, other, target = rng.choice((4, 6, 8)), rng.choice((6, 8, 10, 12)), 0
    target = rng.randint(4, sides + other - 2)
    good = sum(1 for a in range(1, sides + 1) for b in range(1, other + 1) if a + b >= target)
    value = Fraction(good, sides * other)
    return Problem(
        (sides, other, target),
        f"A fair {sides}-sided die with faces $1$ to ${sides}$ and a fair {other}-sided die with faces $1$ "
        f"to ${other}$ are rolled. "
        f"What is the probability that the sum is at least ${target}$? Express your answer as a common "
        f"fraction.",
        rf"There are ${sides} \cdot {other} = {sides * other}$ equally likely outcomes. If the first die "
        rf"shows $a$, the second must "
        rf"show at least ${target} - a$; adding the possibilities for $a = 1, \ldots, {sides}$ gives "
        rf"${good}$ outcomes. The "
        rf"probability is ${box(frac(value))}$.",
    )


@counting(2)
def _handshakes(rng: random.Random) -> Problem:
    couples = rng.randint(4, 15)
    people, value = 2 * couples, 2 * couples * (2 * couples - 2) // 2
    return Problem(
        (couples,),
        f"At a party there are ${couples}$ married couples. Everyone shakes hands once with everyone except "
        f"his or her own "
        "spouse. How many handshakes are there?",
        f"Each of the ${people}$ people shakes hands with ${people - 2}$ others. Every handshake is counted "
        rf"twice, so there are "
        rf"$\frac{{{people} \cdot {people - 2}}}{{2}} = {box(value)}$ handshakes.",
    )


@counting(3)
def _same_colour(rng: random.Random) -> Problem:
    a, b, (x, y) = rng.randint(3, 12), rng.randint(3, 12), rng.sample(COLOURS, 2)
    good, total = math.comb(a, 2) + math.comb(b, 2), math.comb(a + b, 2)
    return Problem(
        (a, b),
        f"A box contains ${a}$ {x} balls and ${b}$ {y} balls. Two balls are drawn at random without "
        f"replacement. What is the "
        "probability that they have the same color? Express your answer as a common fraction.",
        rf"There are $\binom{{{a + b}}}{{2}} = {total}$ pairs. Of these $\binom{{{a}}}{{2}} + "
        rf"\binom{{{b}}}{{2}} = "
        rf"{math.comb(a, 2)} + {math.comb(b, 2)} = {good}$ have one color, so the probability is "
        f"${reduced(good, total)}$.",
    )


@counting(3)
def _grid_paths(rng: random.Random) -> Problem:
    a, b = rng.randint(3, 8), rng.randint(3, 8)
    p, q = rng.randint(1, a - 1), rng.randint(1, b - 1)
    first, second = math.comb(p + q, p), math.comb(a + b - p - q, a - p)
    return Problem(
        (a, b, p, q),
        f"A path on the coordinate grid goes from $(0, 0)$ to $({a}, {b})$ in unit steps to the right or up. "
        f"How many such paths "
        f"pass through $({p}, {q})$?",
        rf"There are $\binom{{{p + q}}}{{{p}}} = {first}$ paths from $(0, 0)$ to $({p}, {q})$ and "
        rf"$\binom{{{a + b - p - q}}}{{{a - p}}} = {second}$ from there to $({a}, {b})$. Together that makes "
        rf"${first} \cdot {second} = {box(first * second)}$ paths.",
    )


@counting(3)
def _heads(rng: random.Random) -> Problem:
    n = rng.randint(5, 10)
    k = rng.randint(2, n - 2)
    value = Fraction(math.comb(n, k), 2**n)
    return Problem(
        (n, k),
        f"A fair coin is tossed ${n}$ times. What is the probability of getting exactly ${k}$ heads? Express "
        f"your answer as a "
        "common fraction.",
        rf"Of the $2^{{{n}}} = {2**n}$ equally likely sequences, $\binom{{{n}}}{{{k}}} = {math.comb(n, k)}$ "
        rf"have exactly ${k}$ "
        rf"heads. The probability in lowest terms is ${box(frac(value))}$.",
    )


@counting(3)
def _expected_prize(rng: random.Random) -> Problem:
    n = rng.choice((5, 8, 10, 20))
    big, small = rng.randint(1, n // 4 + 1), rng.randint(1, n // 2)
    win, consolation = rng.randint(4, 20) * 5, rng.randint(1, 10)
    value = Fraction(big * win + small * consolation, n)
    return Problem(
        (n, big, small, win, consolation),
        f"In a lottery {n} tickets are in a hat: {big} {'wins' if big == 1 else 'win'} {win} dollars, "
        f"{small} "
        f"{'wins' if small == 1 else 'win'} {consolation} {'dollar' if consolation == 1 else 'dollars'}, and "
        f"the others win nothing. "
        "One ticket is drawn at random. What is the expected value of the prize in dollars? Express your "
        "answer as a decimal.",
        rf"Weighting each prize with its probability gives $\frac{{{big}}}{{{n}}} \cdot {win} + "
        rf"\frac{{{small}}}{{{n}}} \cdot "
        rf"{consolation} = \frac{{{big * win + small * consolation}}}{{{n}}} = {box(decimal(value))}$ "
        rf"dollars.",
    )


@counting(4)
def _not_adjacent(rng: random.Random) -> Problem:
    others, apart = rng.randint(4, 7), rng.randint(2, 4)
    value = math.factorial(others) * math.perm(others + 1, apart)
    a, b = rng.choice((("boys", "girls"), ("adults", "children"), ("dancers", "singers"), ("cooks", "waiters")))
    return Problem(
        (others, apart),
        f"In how many ways can ${others}$ {a} and ${apart}$ {b} stand in a row if no two {b} stand next to each other?",
        f"First arrange the {a} in ${others}! = {math.factorial(others)}$ ways. They leave ${others + 1}$ "
        rf"gaps, counting the ends, and the "
        rf"{b} go into different gaps in $\frac{{{others + 1}!}}{{{others + 1 - apart}!}} = "
        rf"{math.perm(others + 1, apart)}$ ways. "
        rf"The product is ${box(value)}$.",
    )


@counting(4)
def _candies(rng: random.Random) -> Problem:
    n, children, least = rng.randint(8, 18), rng.randint(3, 5), rng.randint(0, 2)
    while n <= children * least:
        n = rng.randint(8, 18)
    rest = n - children * least
    value = math.comb(rest + children - 1, children - 1)
    demand = (
        "Some children may get none.",
        "Each child gets at least one.",
        "Each child gets at least two.",
    )[least]
    first = (
        f"After giving each child {('', 'one candy', 'two candies')[least]} we have ${rest}$ left. " if least else ""
    )
    return Problem(
        (n, children, least),
        f"In how many ways can ${n}$ identical candies be given to ${children}$ children? {demand}",
        f"{first}Distributing ${rest}$ identical candies among ${children}$ children means choosing the "
        rf"places of ${children - 1}$ bars "
        f"in a row of ${rest + children - 1}$ stars and bars: "
        rf"$\binom{{{rest + children - 1}}}{{{children - 1}}} = {box(value)}$.",
    )


@counting(4)
def _defective(rng: random.Random) -> Problem:
    n, bad, k = rng.randint(9, 16), rng.randint(2, 4), rng.randint(3, 4)
    none = Fraction(math.comb(n - bad, k), math.comb(n, k))
    return Problem(
        (n, bad, k),
        f"A box contains ${n}$ light bulbs of which ${bad}$ are defective. If ${k}$ bulbs are chosen at "
        f"random, what is the "
        "probability that at least one is defective? Express your answer as a common fraction.",
        rf"The probability that all are good is $\frac{{\binom{{{n - bad}}}{{{k}}}}}{{\binom{{{n}}}{{{k}}}}} "
        rf"= "
        rf"\frac{{{math.comb(n - bad, k)}}}{{{math.comb(n, k)}}} = {frac(none)}$. So the answer is $1 - "
        rf"{frac(none)} = "
        rf"{box(frac(1 - none))}$.",
    )


@counting(5)
def _fixed_points(rng: random.Random) -> Problem:
    n = rng.randint(5, 9)
    fixed = rng.randint(1, n - 3)
    derangements = [1, 0]
    for i in range(2, n + 1):
        derangements.append((i - 1) * (derangements[-1] + derangements[-2]))
    rest = n - fixed
    guest = rng.choice(("guests pick up umbrellas", "students pick up notebooks", "players pick up caps"))
    who, _, _, thing = guest.split()
    return Problem(
        (n, fixed),
        f"After a meeting ${n}$ {who} each take one of their ${n}$ {thing} at random. In how many ways can "
        f"it happen that exactly "
        f"${fixed}$ of them {'gets' if fixed == 1 else 'get'} the right one?",
        rf"Choose who gets the right one in $\binom{{{n}}}{{{fixed}}} = {math.comb(n, fixed)}$ ways. The "
        rf"other ${rest}$ must all get a wrong "
        f"one. With $D_1 = 0$, $D_2 = 1$ and $D_k = (k - 1)(D_{{k-1}} + D_{{k-2}})$ we get $D_{rest} = "
        rf"{derangements[rest]}$. "
        rf"The number of ways is ${math.comb(n, fixed)} \cdot {derangements[rest]} = "
        rf"{box(math.comb(n, fixed) * derangements[rest])}$.",
    )


@counting(5)
def _onto(rng: random.Random) -> Problem:
    n, k = rng.randint(4, 9), rng.randint(3, 4)
    terms = [(-1) ** j * math.comb(k, j) * (k - j) ** n for j in range(k)]
    shown = rf"{k}^{n}" + "".join(rf" {'-' if j % 2 else '+'} {math.comb(k, j)} \cdot {k - j}^{n}" for j in range(1, k))
    what, verb, where = rng.choice(
        (("gifts", "given to", "children"), ("tasks", "given to", "workers"), ("books", "put on", "shelves"))
    )
    return Problem(
        (n, k),
        f"In how many ways can ${n}$ different {what} be {verb} ${k}$ different {where} so that none of the "
        f"{where} is left "
        "without any?",
        f"By inclusion and exclusion over the {where} that are left out, the number is "
        rf"${shown} = {box(sum(terms))}$.",
    )


def _without_neighbours(n: int) -> int:
    """Return the number of binary sequences of length n without two adjacent ones."""
    before, now = 1, 2
    for _ in range(n - 1):
        before, now = now, before + now
    return now


@counting(5)
def _no_two_heads(rng: random.Random) -> Problem:
    n = rng.randint(5, 16)
    good = _without_neighbours(n)
    return Problem(
        (n,),
        f"A fair coin is tossed ${n}$ times. What is the probability that no two heads come one right after "
        f"the other? Express your answer as a "
        "common fraction.",
        "Let $a_n$ be the number of good sequences of length $n$. Such a sequence ends in tails after a "
        rf"good sequence of length $n - 1$, or in tails and "
        f"heads after one of length $n - 2$, so $a_n = a_{{n-1}} + a_{{n-2}}$ with $a_1 = 2$ and $a_2 = 3$. "
        rf"This gives $a_{{{n}}} = {good}$. Dividing by "
        rf"$2^{{{n}}} = {2**n}$, the probability is ${box(frac(Fraction(good, 2**n)))}$.",
    )


@counting(5)
def _fence_posts(rng: random.Random) -> Problem:
    n = rng.randint(6, 15)
    value = _without_neighbours(n - 1) + _without_neighbours(n - 3)
    place, what, paint = rng.choice(
        (
            ("round fence", "posts", "red"),
            ("round table", "seats", "marked"),
            ("circular walk", "lamps", "lit"),
        )
    )
    return Problem(
        (n,),
        f"A {place} has ${n}$ numbered {what}. In how many ways can some of them, possibly none, be {paint} "
        f"so that no two neighbors are both {paint}?",
        f"Let $a_m$ count the ways for a row of $m$ places without {paint} neighbors: $a_1 = 2$, $a_2 = 3$, "
        rf"$a_m = a_{{m-1}} + a_{{m-2}}$. Look at one fixed place of the "
        f"circle. If it is not {paint}, the others form a row of ${n - 1}$ places; if it is, its two "
        rf"neighbors are not, and a row of ${n - 3}$ places is left. The number "
        f"is $a_{{{n - 1}}} + a_{{{n - 3}}} = {_without_neighbours(n - 1)} + {_without_neighbours(n - 3)} = "
        rf"{box(value)}$.",
    )


@counting(5)
def _first_to_win(rng: random.Random) -> Problem:
    p = Fraction(1, rng.randint(3, 9))
    q = Fraction(rng.randint(1, 4), rng.choice((5, 7)))
    value = p / (1 - (1 - p) * (1 - q))
    return Problem(
        (p, q),
        "Ana and Ben take turns shooting at a target, and Ana begins. Ana hits with probability "
        rf"${frac(p)}$ and Ben with probability "
        f"${frac(q)}$ on each shot. The first to hit wins. What is the probability that Ana wins? Express "
        rf"your answer as a common "
        "fraction.",
        f"Let $x$ be the probability. Ana wins at once with probability ${frac(p)}$; otherwise both must "
        rf"miss before she is in the same "
        rf"position again: $x = {frac(p)} + {frac(1 - p)} \cdot {frac(1 - q)} \cdot x$. So "
        rf"${frac(1 - (1 - p) * (1 - q))}x = {frac(p)}$ and $x = {box(frac(value))}$.",
    )
