"""Templates of GSM8K-style word problems about buying, selling, earning and saving."""

import random

from envs_data.build.draft import Draft
from envs_data.build.gsm8k.worked import Step, people, word_problem


def _change(rng: random.Random) -> Draft:
    (p,) = people(rng, 1)
    a, x, b, y = rng.randint(2, 7), rng.randint(2, 9), rng.randint(2, 6), rng.randint(3, 12)
    paid = (a * x + b * y) // 20 * 20 + 20
    first, second = rng.sample(("notebooks", "folders", "markers", "glue sticks", "rulers", "paint brushes"), 2)
    return word_problem(
        (a, x, b, y),
        f"{p.name} buys {a} {first} for ${x} each and {b} {second} for ${y} each. {p.she.title()} pays with "
        f"${paid}. How much change "
        f"does {p.she} get?",
        Step(f"The {first} cost {{}}.", f"{a}*{x}", "$"),
        Step(f"The {second} cost {{}}.", f"{b}*{y}", "$"),
        Step("Everything costs {}.", f"{a * x}+{b * y}", "$"),
        Step(f"{p.name} gets {{}} back.", f"{paid}-{a * x + b * y}", "$"),
    )


def _discount(rng: random.Random) -> Draft:
    (p,) = people(rng, 1)
    n, price, off, shipping = (
        rng.randint(2, 6),
        rng.randint(3, 18) * 10,
        rng.choice((10, 20, 25, 30, 40, 50)),
        rng.randint(4, 15),
    )
    total = n * price
    while total * off % 100:
        price = rng.randint(3, 18) * 10
        total = n * price
    cut = total * off // 100
    thing = rng.choice(("lamps", "chairs", "backpacks", "pairs of boots", "blankets"))
    return word_problem(
        (n, price, off, shipping),
        f"A store sells {thing} for ${price} each. {p.name} orders {n} of them with a {off}% discount and "
        f"then pays ${shipping} for shipping. How "
        f"much does {p.she} pay in total?",
        Step("The full price is {}.", f"{n}*{price}", "$"),
        Step("The discount is {}.", f"{total}*{off}/100", "$"),
        Step("After the discount the order costs {}.", f"{total}-{cut}", "$"),
        Step("With shipping the total is {}.", f"{total - cut}+{shipping}", "$"),
    )


def _saving_weeks(rng: random.Random) -> Draft:
    (p,) = people(rng, 1)
    hours, wage, spent, weeks = (
        rng.randint(4, 15),
        rng.randint(8, 20),
        rng.randint(10, 60),
        rng.randint(4, 14),
    )
    weekly = hours * wage - spent
    while weekly < 15:
        spent = rng.randint(10, 60)
        hours += 1
        weekly = hours * wage - spent
    saved = rng.randint(2, 12) * 10
    goal = weekly * weeks + saved
    thing = rng.choice(("a bicycle", "a guitar", "a camera", "a used piano", "a tent"))
    return word_problem(
        (hours, wage, spent, weeks, saved),
        f"{p.name} wants to buy {thing} that costs ${goal} and already has ${saved}. Each week {p.she} works "
        f"{hours} hours for ${wage} an hour and "
        f"spends ${spent}; the rest {p.she} saves. After how many weeks can {p.she} buy it?",
        Step(f"{p.name} earns {{}} a week.", f"{hours}*{wage}", "$"),
        Step(f"{p.she.title()} saves {{}} a week.", f"{hours * wage}-{spent}", "$"),
        Step(f"{p.she.title()} still needs {{}}.", f"{goal}-{saved}", "$"),
        Step("This takes {} weeks.", f"{goal - saved}/{weekly}"),
    )


def _lemonade(rng: random.Random) -> Draft:
    p, q = people(rng, 2)
    cups, price, cost = rng.randint(12, 60), rng.choice((2, 3, 4)), rng.randint(6, 22)
    while (cups * price - cost) % 2:
        cost = rng.randint(6, 22)
    drink = rng.choice(("lemonade", "iced tea", "orange juice", "hot chocolate"))
    return word_problem(
        (cups, price, cost),
        f"{p.name} and {q.name} sell {drink} at a street fair. They sell {cups} cups for ${price} each, and "
        f"the ingredients cost them ${cost}. They share the "
        "profit equally. How many dollars does each of them get?",
        Step("They take in {}.", f"{cups}*{price}", "$"),
        Step("Their profit is {}.", f"{cups * price}-{cost}", "$"),
        Step("Each of them gets {}.", f"{cups * price - cost}/2", "$"),
    )


def _tickets(rng: random.Random) -> Draft:
    adults, children, adult, child = (
        rng.randint(2, 9),
        rng.randint(3, 20),
        rng.randint(11, 25),
        rng.randint(4, 10),
    )
    snack = rng.randint(2, 6)
    place = rng.choice(("the zoo", "a museum", "a water park", "the circus", "an aquarium"))
    return word_problem(
        (adults, children, adult, child, snack),
        f"A group of {adults} adults and {children} children visits {place}. An adult ticket costs ${adult} "
        f"and a child ticket ${child}. Everyone also buys a "
        f"snack for ${snack}. How much does the group spend altogether?",
        Step("The adult tickets cost {}.", f"{adults}*{adult}", "$"),
        Step("The child tickets cost {}.", f"{children}*{child}", "$"),
        Step("There are {} people.", f"{adults}+{children}"),
        Step("The snacks cost {}.", f"{adults + children}*{snack}", "$"),
        Step(
            "Altogether they spend {}.",
            f"{adults * adult}+{children * child}+{(adults + children) * snack}",
            "$",
        ),
    )


def _overtime(rng: random.Random) -> Draft:
    (p,) = people(rng, 1)
    wage, extra, days = rng.choice((12, 14, 16, 18, 20, 22, 24)), rng.randint(2, 12), rng.randint(4, 6)
    regular = days * 8
    job = rng.choice(("a bakery", "a warehouse", "a hotel", "a garage", "a library"))
    return word_problem(
        (wage, extra, days),
        f"{p.name} earns ${wage} an hour at {job} and is paid one and a half times as much for overtime. "
        f"Last week {p.she} worked {days} days of 8 hours and "
        f"{extra} hours of overtime. How much did {p.she} earn?",
        Step(f"{p.name} worked {{}} regular hours.", f"{days}*8"),
        Step("For these the pay is {}.", f"{regular}*{wage}", "$"),
        Step("An hour of overtime pays {}.", f"{wage}*1.5", "$"),
        Step("The overtime pays {}.", f"{extra}*{wage * 3 // 2}", "$"),
        Step("The total is {}.", f"{regular * wage}+{extra * (wage * 3 // 2)}", "$"),
    )


def _phone_plan(rng: random.Random) -> Draft:
    (p,) = people(rng, 1)
    base, free, used, cents = (
        rng.randint(15, 45),
        rng.randint(2, 8) * 50,
        rng.randint(20, 200),
        rng.choice((5, 10, 20, 25, 50)),
    )
    while used * cents % 100:
        used = rng.randint(20, 200)
    months = rng.randint(2, 6)
    over = used * cents // 100
    return word_problem(
        (base, free, used, cents, months),
        f"{p.name}'s phone plan costs ${base} a month and includes {free} minutes; each further minute costs "
        f"{cents} cents. If {p.name} talks "
        f"{free + used} minutes every month, how many dollars does {p.she} pay in {months} months?",
        Step(f"{p.name} talks {{}} minutes more than included.", f"{free + used}-{free}"),
        Step("They cost {} cents.", f"{used}*{cents}"),
        Step("In dollars this is {}.", f"{used * cents}/100", "$"),
        Step("One month costs {}.", f"{base}+{over}", "$"),
        Step(f"{months} months cost {{}}.", f"{months}*{base + over}", "$"),
    )


def _resale(rng: random.Random) -> Draft:
    (p,) = people(rng, 1)
    boxes, each, paid, price = (
        rng.randint(3, 9),
        rng.choice((6, 8, 10, 12, 20, 24)),
        rng.randint(8, 30),
        rng.randint(3, 8),
    )
    broken = rng.randint(2, 10)
    income = (boxes * each - broken) * price
    while income <= boxes * paid:
        price += 1
        income = (boxes * each - broken) * price
    thing = rng.choice(("mugs", "candles", "picture frames", "toy trucks"))
    return word_problem(
        (boxes, each, paid, price, broken),
        f"{p.name} buys {boxes} boxes of {thing} for ${paid} a box. Each box holds {each} {thing}. {broken} "
        f"of them are broken, and {p.she} sells all the others "
        f"for ${price} each. What is {p.her} profit in dollars?",
        Step("The boxes cost {}.", f"{boxes}*{paid}", "$"),
        Step(f"There are {{}} {thing} in the boxes.", f"{boxes}*{each}"),
        Step(f"{p.name} can sell {{}} of them.", f"{boxes * each}-{broken}"),
        Step("This brings in {}.", f"{boxes * each - broken}*{price}", "$"),
        Step("The profit is {}.", f"{income}-{boxes * paid}", "$"),
    )


def _split_bill(rng: random.Random) -> Draft:
    n, each, tip = rng.randint(3, 8), rng.randint(10, 30), rng.choice((10, 15, 20, 25))
    food = n * each * 4
    while food * tip % 100 or (food + food * tip // 100) % n:
        n, each = rng.randint(3, 8), rng.randint(3, 12) * 5
        food = n * each * 4
    total = food + food * tip // 100
    return word_problem(
        (n, food, tip),
        f"{n} friends have dinner together. The food costs ${food}, and they add a tip of {tip}%. If they "
        f"share the bill equally, how much does each of them pay?",
        Step("The tip is {}.", f"{food}*{tip}/100", "$"),
        Step("The bill with the tip is {}.", f"{food}+{food * tip // 100}", "$"),
        Step("Each friend pays {}.", f"{total}/{n}", "$"),
    )


def _cheaper_pack(rng: random.Random) -> Draft:
    small, large = rng.choice(((4, 12), (5, 20), (6, 18), (6, 24), (8, 24), (10, 30)))
    price, packs = rng.randint(3, 9), rng.randint(2, 6)
    times = large // small
    large_price = price * times - rng.randint(1, price)
    needed = large * packs
    thing = rng.choice(("batteries", "light bulbs", "rolls of tape", "bottles of water"))
    return word_problem(
        (small, large, price, large_price, packs),
        f"{thing.capitalize()} come in packs of {small} for ${price} or in packs of {large} for "
        f"${large_price}. A school needs {needed} {thing}. How many dollars does it "
        "save by buying only large packs instead of only small packs?",
        Step("It would need {} small packs.", f"{needed}/{small}"),
        Step("They cost {}.", f"{needed // small}*{price}", "$"),
        Step("It needs {} large packs.", f"{needed}/{large}"),
        Step("They cost {}.", f"{packs}*{large_price}", "$"),
        Step("The school saves {}.", f"{needed // small * price}-{packs * large_price}", "$"),
    )


def _rent_shares(rng: random.Random) -> Draft:
    p, q, r = people(rng, 3)
    third, more = rng.randint(15, 45) * 10, rng.randint(3, 20) * 10
    total = third + (third + more) + 2 * third
    return word_problem(
        (third, more),
        f"{p.name}, {q.name} and {r.name} share a house. {p.name} pays ${third} of the rent each month, "
        f"{q.name} pays ${more} more than {p.name}, and {r.name} pays twice as much as "
        f"{p.name}. What is the rent of the house for a whole year?",
        Step(f"{q.name} pays {{}}.", f"{third}+{more}", "$"),
        Step(f"{r.name} pays {{}}.", f"2*{third}", "$"),
        Step("The monthly rent is {}.", f"{third}+{third + more}+{2 * third}", "$"),
        Step("In a year this is {}.", f"12*{total}", "$"),
    )


def _fund_raiser(rng: random.Random) -> Draft:
    grade = rng.sample(("third", "fourth", "fifth", "sixth"), 3)
    base, times, less = rng.randint(6, 30) * 10, rng.randint(2, 4), rng.randint(3, 15) * 5
    total = base + base * times + base * times - less
    goal = total + rng.randint(2, 20) * 25
    return word_problem(
        (base, times, less, goal),
        f"A school collects money for a new playground that costs ${goal}. The {grade[0]} grade collects "
        f"${base}, the {grade[1]} grade {times} times as much, and the "
        f"{grade[2]} grade ${less} less than the {grade[1]} grade. How many dollars are still missing?",
        Step(f"The {grade[1]} grade collects {{}}.", f"{times}*{base}", "$"),
        Step(f"The {grade[2]} grade collects {{}}.", f"{times * base}-{less}", "$"),
        Step("Together they collect {}.", f"{base}+{times * base}+{times * base - less}", "$"),
        Step("There are {} missing.", f"{goal}-{total}", "$"),
    )


TEMPLATES = (
    _change,
    _discount,
    _saving_weeks,
    _lemonade,
    _tickets,
    _overtime,
    _phone_plan,
    _resale,
    _split_bill,
    _cheaper_pack,
    _rent_shares,
    _fund_raiser,
)
