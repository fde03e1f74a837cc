"""Templates of GSM8K-style word problems about home, school, garden and kitchen."""

import random

from envs_data.build.draft import Draft
from envs_data.build.gsm8k.worked import Step, people, word_problem


def _reading(rng: random.Random) -> Draft:
    (p,) = people(rng, 1)
    first, times, days, rest = rng.randint(9, 35), rng.randint(2, 3), rng.randint(3, 9), rng.randint(8, 30)
    pages = first + times * first + days * rest
    return word_problem(
        (first, times, days, rest),
        f"{p.name} reads a book with {pages} pages. On the first day {p.she} reads {first} pages, and on the "
        f"second day {('twice', 'three times')[times - 2]} as many. "
        f"After that {p.she} reads {rest} pages a day. How many days does {p.she} need for the whole book?",
        Step(f"On the second day {p.name} reads {{}} pages.", f"{times}*{first}"),
        Step("In the first two days that makes {} pages.", f"{first}+{times * first}"),
        Step("There are {} pages left.", f"{pages}-{first + times * first}"),
        Step("For these {} days are needed.", f"{pages - first - times * first}/{rest}"),
        Step("Altogether it takes {} days.", f"2+{days}"),
    )


def _cookies(rng: random.Random) -> Draft:
    (p,) = people(rng, 1)
    trays, rows, each = rng.randint(2, 6), rng.randint(3, 6), rng.randint(4, 8)
    total = trays * rows * each
    eaten = rng.randint(3, 14)
    bag = rng.choice([d for d in range(2, 12) if (total - eaten) % d == 0] or [1])
    while bag == 1:
        eaten = rng.randint(3, 14)
        bag = rng.choice([d for d in range(2, 12) if (total - eaten) % d == 0] or [1])
    thing = rng.choice(("cookies", "rolls", "scones", "tarts"))
    return word_problem(
        (trays, rows, each, eaten, bag),
        f"{p.name} bakes {trays} trays of {thing}. Each tray has {rows} rows of {each} {thing}. The family "
        f"eats {eaten} of them, and {p.name} packs the rest into bags of {bag}. How many "
        "bags does this fill?",
        Step(f"One tray holds {{}} {thing}.", f"{rows}*{each}"),
        Step(f"All trays together hold {{}} {thing}.", f"{trays}*{rows * each}"),
        Step(f"After the meal {{}} {thing} are left.", f"{total}-{eaten}"),
        Step("They fill {} bags.", f"{total - eaten}/{bag}"),
    )


def _recipe(rng: random.Random) -> Draft:
    (p,) = people(rng, 1)
    people_in, cups, eggs = rng.choice((2, 3, 4, 5, 6)), rng.randint(2, 5), rng.randint(2, 6)
    factor = rng.randint(3, 8)
    guests, have = people_in * factor, rng.randint(2, 5)
    dish = rng.choice(("a pancake", "a pie", "a bread", "a noodle", "a waffle"))
    return word_problem(
        (people_in, eggs, factor, have),
        f"{dish.capitalize()} recipe for {people_in} people needs {cups} cups of flour and {eggs} eggs. "
        f"{p.name} cooks it for {guests} guests and already has {have} eggs. How many eggs does "
        f"{p.she} still have to buy?",
        Step("The recipe has to be made {} times.", f"{guests}/{people_in}"),
        Step("This needs {} eggs.", f"{factor}*{eggs}"),
        Step(f"{p.name} has to buy {{}} eggs.", f"{factor * eggs}-{have}"),
    )


def _ages(rng: random.Random) -> Draft:
    p, q, r = people(rng, 3)
    young, times, gap, years = rng.randint(4, 14), rng.randint(2, 4), rng.randint(2, 9), rng.randint(3, 15)
    second, third = young * times, young * times - gap
    return word_problem(
        (young, times, gap, years),
        f"{p.name} is {young} years old. {q.name} is {('twice', 'three times', 'four times')[times - 2]} as "
        f"old as {p.name}, and {r.name} is {gap} years younger than {q.name}. "
        f"What will be the sum of their ages in {years} years?",
        Step(f"{q.name} is {{}} years old.", f"{times}*{young}"),
        Step(f"{r.name} is {{}} years old.", f"{second}-{gap}"),
        Step("Now their ages add up to {}.", f"{young}+{second}+{third}"),
        Step("Together they grow older by {} years.", f"3*{years}"),
        Step("The sum will be {}.", f"{young + second + third}+{3 * years}"),
    )


def _class_fractions(rng: random.Random) -> Draft:
    part, second = rng.choice((2, 3, 4, 5)), rng.choice((2, 3, 4))
    students = part * second * rng.randint(3, 12)
    first = students // part
    rest = students - first
    while rest % second:
        students += part * second
        first = students // part
        rest = students - first
    ride = rest // second
    names = {2: "half", 3: "a third", 4: "a quarter", 5: "a fifth"}
    return word_problem(
        (part, second, students),
        f"A school trip has {students} students. {names[part].capitalize()} of them come by bus, "
        f"{names[second]} of the others come by bicycle, and the rest walk. How many students walk?",
        Step("There are {} students on the bus.", f"{students}/{part}"),
        Step("The others are {} students.", f"{students}-{first}"),
        Step("Of these {} come by bicycle.", f"{rest}/{second}"),
        Step("So {} students walk.", f"{rest}-{ride}"),
    )


def _garden(rng: random.Random) -> Draft:
    (p,) = people(rng, 1)
    beds, rows, plants, each = rng.randint(2, 5), rng.randint(2, 6), rng.randint(3, 9), rng.randint(3, 8)
    lost = rng.randint(2, 12)
    while lost >= beds * rows * plants - 5:
        lost = rng.randint(2, 12)
    crop, fruit = rng.choice(
        (("tomato", "tomatoes"), ("pepper", "peppers"), ("cucumber", "cucumbers"), ("pumpkin", "pumpkins"))
    )
    return word_problem(
        (beds, rows, plants, each, lost),
        f"{p.name}'s garden has {beds} beds. In each bed {p.she} sets {rows} rows of {plants} {crop} plants. "
        f"Rabbits eat {lost} of the plants, and every plant that is left bears "
        f"{each} {fruit}. How many {fruit} does {p.name} harvest?",
        Step("Each bed has {} plants.", f"{rows}*{plants}"),
        Step(f"{p.name} sets {{}} plants.", f"{beds}*{rows * plants}"),
        Step("After the rabbits {} plants are left.", f"{beds * rows * plants}-{lost}"),
        Step(f"They bear {{}} {fruit}.", f"{beds * rows * plants - lost}*{each}"),
    )


def _cards(rng: random.Random) -> Draft:
    p, q = people(rng, 2)
    start, give, times = rng.randint(40, 160), rng.randint(5, 18), rng.randint(2, 4)
    friends = rng.randint(2, 4)
    while start <= give * friends + 10:
        start = rng.randint(60, 160)
    left = start - give * friends
    thing = rng.choice(("baseball cards", "stickers", "stamps", "comic books", "marbles"))
    return word_problem(
        (start, give, friends, times),
        f"{p.name} has {start} {thing}. {p.she.title()} gives {give} of them to each of {friends} friends. "
        f"Then {q.name} has {('twice', 'three times', 'four times')[times - 2]} as many as {p.name} has "
        f"left. How many {thing} do {p.name} and {q.name} have together?",
        Step(f"{p.name} gives away {{}} {thing}.", f"{friends}*{give}"),
        Step(f"{p.she.title()} has {{}} left.", f"{start}-{friends * give}"),
        Step(f"{q.name} has {{}}.", f"{times}*{left}"),
        Step("Together they have {}.", f"{left}+{times * left}"),
    )


def _water_tank(rng: random.Random) -> Draft:
    rate, leak, start, minutes = (
        rng.randint(8, 30),
        rng.randint(2, 7),
        rng.randint(10, 90),
        rng.randint(10, 60),
    )
    size = start + (rate - leak) * minutes
    what = rng.choice(("A tank", "A pool", "A pond", "A fish basin"))
    return word_problem(
        (rate, leak, start, minutes),
        f"{what} holds {size} liters and has {start} liters in it. A hose brings {rate} liters a minute, but "
        f"{leak} liters a minute leak out. After how many minutes is it full?",
        Step("There is room for {} more liters.", f"{size}-{start}"),
        Step("Each minute the water rises by {} liters.", f"{rate}-{leak}"),
        Step("It is full after {} minutes.", f"{size - start}/{rate - leak}"),
    )


def _eggs(rng: random.Random) -> Draft:
    (p,) = people(rng, 1)
    hens, weeks, used, price = rng.randint(8, 60), rng.randint(2, 4), rng.randint(2, 6), rng.randint(2, 6)
    while (hens - used) * 7 % 12 or hens <= used:
        hens, used = rng.randint(8, 60), rng.randint(2, 6)
    dozens = (hens - used) * 7 // 12
    return word_problem(
        (hens, used, price, weeks),
        f"{p.name} has {hens} hens, and each of them lays one egg a day. The family eats {used} eggs a day, "
        f"and {p.name} sells the rest for ${price} a dozen. How many dollars does {p.she} "
        f"earn in {weeks} weeks?",
        Step("Each day {} eggs are left.", f"{hens}-{used}"),
        Step("In a week that makes {} eggs.", f"7*{hens - used}"),
        Step("These are {} dozen.", f"{(hens - used) * 7}/12"),
        Step("A week brings {}.", f"{dozens}*{price}", "$"),
        Step(f"{weeks} weeks bring {{}}.", f"{weeks}*{dozens * price}", "$"),
    )


def _screen_time(rng: random.Random) -> Draft:
    (p,) = people(rng, 1)
    school, weekend, less = rng.randint(3, 8) * 10, rng.randint(8, 18) * 10, rng.choice((10, 15, 20, 25))
    total = 5 * school + 2 * weekend
    new = total - 7 * less
    activity = rng.choice(
        ("plays video games", "watches videos", "draws", "practices the violin", "chats with friends")
    )
    return word_problem(
        (school, weekend, less),
        f"{p.name} {activity} for {school} minutes on each of the 5 school days and for {weekend} minutes on "
        f"each of the 2 days of the weekend. {p.she.title()} decides to cut this by {less} minutes "
        "every day. How many minutes a week remain?",
        Step("On school days it is {} minutes.", f"5*{school}"),
        Step("On the weekend it is {} minutes.", f"2*{weekend}"),
        Step("In a week this makes {} minutes.", f"{5 * school}+{2 * weekend}"),
        Step(f"{p.name} cuts {{}} minutes a week.", f"7*{less}"),
        Step("There remain {} minutes.", f"{new + 7 * less}-{7 * less}"),
    )


def _test_points(rng: random.Random) -> Draft:
    (p,) = people(rng, 1)
    easy, hard, right = rng.randint(10, 25), rng.randint(5, 15), rng.choice((60, 70, 75, 80, 90))
    easy_points, hard_points = rng.choice((1, 2, 3)), rng.choice((4, 5, 6))
    while easy * right % 100:
        easy = rng.randint(10, 40)
    missed = rng.randint(1, hard - 1)
    good = easy * right // 100
    return word_problem(
        (easy, hard, right, easy_points, hard_points, missed),
        f"A test has {easy} easy questions worth {easy_points} point{'s' if easy_points > 1 else ''} each "
        f"and {hard} hard questions worth {hard_points} points each. {p.name} answers "
        f"{right}% of the easy questions correctly and misses {missed} of the hard questions. How many "
        f"points does {p.she} get?",
        Step(f"{p.name} has {{}} easy questions right.", f"{easy}*{right}/100"),
        Step("They bring {} points.", f"{good}*{easy_points}"),
        Step(f"{p.she.title()} has {{}} hard questions right.", f"{hard}-{missed}"),
        Step("They bring {} points.", f"{hard - missed}*{hard_points}"),
        Step("The total is {} points.", f"{good * easy_points}+{(hard - missed) * hard_points}"),
    )


def _paint(rng: random.Random) -> Draft:
    length, width, height = rng.randint(4, 12), rng.randint(3, 9), rng.randint(2, 4)
    area = 2 * (length + width) * height
    opening = rng.randint(2, 12)
    cover = rng.choice([d for d in range(4, 40) if 2 * (area - opening) % d == 0] or [1])
    while cover == 1:
        opening = rng.randint(2, 12)
        cover = rng.choice([d for d in range(4, 40) if 2 * (area - opening) % d == 0] or [1])
    return word_problem(
        (length, width, height, opening, cover),
        f"A room is {length} meters long, {width} meters wide and {height} meters high. Its four walls, "
        f"without the {opening} square meters of doors and windows, get two coats of paint. One can "
        f"covers {cover} square meters. How many cans are needed?",
        Step("The walls are {} meters long in all.", f"2*{length}+2*{width}"),
        Step("Their area is {} square meters.", f"{2 * (length + width)}*{height}"),
        Step("Without doors and windows it is {} square meters.", f"{area}-{opening}"),
        Step("Two coats cover {} square meters.", f"2*{area - opening}"),
        Step("This takes {} cans.", f"{2 * (area - opening)}/{cover}"),
    )


TEMPLATES = (
    _reading,
    _cookies,
    _recipe,
    _ages,
    _class_fractions,
    _garden,
    _cards,
    _water_tank,
    _eggs,
    _screen_time,
    _test_points,
    _paint,
)
