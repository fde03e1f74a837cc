"""Templates of GSM8K-style word problems about travel, work, sport and factories."""

import random

from envs_data.build.draft import Draft
from envs_data.build.gsm8k.worked import Step, people, word_problem


def _two_legs(rng: random.Random) -> Draft:
    (p,) = people(rng, 1)
    first, fast, second, slow = (
        rng.randint(2, 5),
        rng.randint(9, 14) * 5,
        rng.randint(1, 4),
        rng.randint(5, 9) * 5,
    )
    vehicle = rng.choice(("car", "motorcycle", "camper van", "truck"))
    way = first * fast + second * slow
    total = way + rng.randint(2, 12) * 10
    return word_problem(
        (first, fast, second, slow, total),
        f"{p.name} has to go {total} miles by {vehicle}. {p.she.title()} drives {first} hours at {fast} "
        f"miles per hour and then {second} {'hour' if second == 1 else 'hours'} at {slow} miles per "
        "hour. How many miles are left?",
        Step("The first part is {} miles.", f"{first}*{fast}"),
        Step("The second part is {} miles.", f"{second}*{slow}"),
        Step("So far this makes {} miles.", f"{first * fast}+{second * slow}"),
        Step("There are {} miles left.", f"{total}-{way}"),
    )


def _fuel(rng: random.Random) -> Draft:
    (p,) = people(rng, 1)
    mileage, price, days = rng.choice((20, 24, 25, 30, 32, 40)), rng.randint(3, 5), rng.randint(3, 10)
    gallons = rng.randint(2, 5)
    way = mileage * gallons
    one = way // 2
    return word_problem(
        (mileage, price, days, gallons),
        f"{p.name} drives {one} miles to work and {one} miles back every day. The car goes {mileage} miles "
        f"on a gallon of gas, and gas costs ${price} a gallon. How much does {p.name} pay for gas in "
        f"{days} working days?",
        Step(f"{p.name} drives {{}} miles a day.", f"2*{one}"),
        Step("This takes {} gallons.", f"{way}/{mileage}"),
        Step("A day costs {}.", f"{gallons}*{price}", "$"),
        Step(f"{days} days cost {{}}.", f"{days}*{gallons * price}", "$"),
    )


def _meeting(rng: random.Random) -> Draft:
    p, q = people(rng, 2)
    a, b, hours, wait = rng.randint(3, 14), rng.randint(3, 14), rng.randint(2, 5), rng.randint(1, 3)
    gap = (a + b) * hours + a * wait
    how = "cycle" if max(a, b) > 4 else "walk"
    return word_problem(
        (a, b, hours, wait),
        f"{p.name} and {q.name} live {gap} miles apart and {how} toward each other. {p.name} goes {a} miles "
        f"an hour and starts {wait} {'hour' if wait == 1 else 'hours'} earlier; {q.name} goes "
        f"{b} miles an hour. How many hours after {q.name}'s start do they meet?",
        Step(f"Before {q.name} starts, {p.name} has gone {{}} miles.", f"{wait}*{a}"),
        Step("They are still {} miles apart.", f"{gap}-{wait * a}"),
        Step("Each hour they come closer by {} miles.", f"{a}+{b}"),
        Step("They meet after {} hours.", f"{gap - wait * a}/{a + b}"),
    )


def _machines(rng: random.Random) -> Draft:
    machines, rate, hours, bad = (
        rng.randint(3, 9),
        rng.randint(4, 20) * 5,
        rng.randint(4, 10),
        rng.choice((2, 4, 5, 10)),
    )
    total = machines * rate * hours
    while total * bad % 100:
        rate = rng.randint(4, 20) * 5
        total = machines * rate * hours
    lost = total * bad // 100
    thing = rng.choice(("bolts", "bottles", "pens", "tiles", "envelopes"))
    return word_problem(
        (machines, rate, hours, bad),
        f"A factory has {machines} machines. Each of them makes {rate} {thing} an hour and runs {hours} "
        f"hours a day. If {bad}% of the {thing} are thrown away, how many good {thing} does the factory make "
        f"in "
        "a day?",
        Step(f"In an hour the machines make {{}} {thing}.", f"{machines}*{rate}"),
        Step(f"In a day they make {{}} {thing}.", f"{hours}*{machines * rate}"),
        Step("Of these {} are thrown away.", f"{total}*{bad}/100"),
        Step(f"There are {{}} good {thing}.", f"{total}-{lost}"),
    )


def _workers(rng: random.Random) -> Draft:
    team, days, extra = rng.randint(3, 8), rng.randint(6, 20), rng.randint(1, 6)
    work, done = team * days, rng.randint(2, 5)
    rest = work - team * done
    while rest <= 0 or rest % (team + extra):
        team, days, extra, done = rng.randint(3, 9), rng.randint(6, 24), rng.randint(1, 6), rng.randint(2, 5)
        work = team * days
        rest = work - team * done
    job = rng.choice(("paint a school", "repair a road", "build a wall", "pick all the apples of an orchard"))
    return word_problem(
        (team, days, extra, done),
        f"{team} workers need {days} days to {job}. After {done} days {extra} more "
        f"{'worker joins' if extra == 1 else 'workers join'} them. If all work equally fast, how many more "
        f"days does the rest of the work take?",
        Step("The whole job takes {} days of one worker.", f"{team}*{days}"),
        Step("The first days do {} of these.", f"{team}*{done}"),
        Step("There remain {}.", f"{work}-{team * done}"),
        Step("Now there are {} workers.", f"{team}+{extra}"),
        Step("They need {} more days.", f"{rest}/{team + extra}"),
    )


def _running(rng: random.Random) -> Draft:
    (p,) = people(rng, 1)
    laps, metres, days, more = (
        rng.randint(4, 12),
        rng.choice((200, 250, 300, 400, 500)),
        rng.randint(3, 6),
        rng.randint(2, 8),
    )
    return word_problem(
        (laps, metres, days, more),
        f"{p.name} runs {laps} laps of {metres} meters on each of {days} days of the week, and on Sunday "
        f"{p.she} runs {more} laps more than on one of those days. How many meters does {p.she} run in a "
        f"week?",
        Step(f"On the {days} days {p.name} runs {{}} laps.", f"{days}*{laps}"),
        Step(f"On Sunday {p.she} runs {{}} laps.", f"{laps}+{more}"),
        Step("In the week this makes {} laps.", f"{days * laps}+{laps + more}"),
        Step(f"{p.name} runs {{}} meters.", f"{days * laps + laps + more}*{metres}"),
    )


def _basketball(rng: random.Random) -> Draft:
    p, q = people(rng, 2)
    twos, threes, free, gap = rng.randint(3, 12), rng.randint(1, 7), rng.randint(1, 8), rng.randint(2, 12)
    total = 2 * twos + 3 * threes + free
    while total <= gap:
        gap = rng.randint(2, 12)
    return word_problem(
        (twos, threes, free, gap),
        f"In a basketball game {p.name} makes {twos} shots worth 2 points, {threes} "
        f"{'shot' if threes == 1 else 'shots'} worth 3 points and {free} free "
        f"{'throw' if free == 1 else 'throws'} worth 1 point. {q.name} scores {gap} "
        f"points less than {p.name}. How many points do they score together?",
        Step(f"{p.name}'s shots worth 2 points give {{}} points.", f"2*{twos}"),
        Step("The shots worth 3 points give {} points.", f"3*{threes}"),
        Step(f"With the free throws {p.name} has {{}} points.", f"{2 * twos}+{3 * threes}+{free}"),
        Step(f"{q.name} has {{}} points.", f"{total}-{gap}"),
        Step("Together they have {} points.", f"{total}+{total - gap}"),
    )


def _bus_stops(rng: random.Random) -> Draft:
    start, on, off, second_on = rng.randint(15, 40), rng.randint(3, 15), rng.randint(3, 12), rng.randint(2, 9)
    now = start - off + on
    while now % 2:
        on = rng.randint(3, 15)
        now = start - off + on
    vehicle = rng.choice(("bus", "tram", "ferry", "subway car"))
    return word_problem(
        (start, on, off, second_on),
        f"A {vehicle} leaves the station with {start} passengers. At the first stop {off} get off and {on} "
        f"get on. At the second stop half of the passengers get off and {second_on} get on. How many "
        f"passengers are on the "
        f"{vehicle} now?",
        Step("After the first stop there are {} passengers.", f"{start}-{off}+{on}"),
        Step("At the second stop {} of them stay.", f"{now}/2"),
        Step("In the end there are {} passengers.", f"{now // 2}+{second_on}"),
    )


def _flight_luggage(rng: random.Random) -> Draft:
    (p,) = people(rng, 1)
    limit, bag, shirts, weight, price = (
        rng.choice((20, 23, 25)),
        rng.randint(2, 4),
        rng.randint(6, 15),
        rng.randint(1, 2),
        rng.randint(6, 15),
    )
    books = rng.randint(2, 9)
    total = bag + shirts * weight + books
    while total <= limit:
        shirts, books = shirts + 1, books + 1
        total = bag + shirts * weight + books
    return word_problem(
        (limit, bag, shirts, weight, books, price),
        f"{p.name}'s empty suitcase weighs {bag} kilograms. {p.she.title()} packs {shirts} souvenirs of "
        f"{weight} {'kilogram' if weight == 1 else 'kilograms'} each and {books} kilograms of books. The "
        f"airline allows {limit} kilograms "
        f"and takes ${price} for each kilogram above that. How much does {p.name} have to pay?",
        Step("The souvenirs weigh {} kilograms.", f"{shirts}*{weight}"),
        Step("The packed suitcase weighs {} kilograms.", f"{bag}+{shirts * weight}+{books}"),
        Step("This is {} kilograms too much.", f"{total}-{limit}"),
        Step(f"{p.name} pays {{}}.", f"{total - limit}*{price}", "$"),
    )


def _theatre(rng: random.Random) -> Draft:
    rows, seats, part, price, cheap = (
        rng.randint(8, 20),
        rng.choice((12, 15, 16, 18, 20, 24)),
        rng.choice((2, 3, 4)),
        rng.randint(10, 25),
        rng.randint(4, 9),
    )
    while rows * seats % part:
        rows = rng.randint(8, 20)
    total = rows * seats
    full = total // part
    fraction = {2: "Half", 3: "A third", 4: "A quarter"}[part]
    return word_problem(
        (rows, seats, part, price, cheap),
        f"A theater has {rows} rows of {seats} seats, and all seats are sold. {fraction} of the tickets cost "
        f"${price}, and the others cost ${cheap}. How much money does the theater take in?",
        Step("There are {} seats.", f"{rows}*{seats}"),
        Step(f"For ${price} there are {{}} tickets.", f"{total}/{part}"),
        Step("They bring {}.", f"{full}*{price}", "$"),
        Step("There are {} cheaper tickets.", f"{total}-{full}"),
        Step("They bring {}.", f"{total - full}*{cheap}", "$"),
        Step("Together this is {}.", f"{full * price}+{(total - full) * cheap}", "$"),
    )


def _hiking(rng: random.Random) -> Draft:
    p, q = people(rng, 2)
    days, less, faster = rng.randint(4, 9), rng.randint(2, 5), rng.randint(8, 18)
    way = days * faster
    while way % (days + less):
        days, less, faster = rng.randint(4, 12), rng.randint(1, 6), rng.randint(8, 24)
        way = days * faster
    slow = way // (days + less)
    return word_problem(
        (days, less, faster),
        f"{p.name} hikes a trail in {days} days and covers {faster} miles a day. {q.name} needs {less} "
        f"{'day' if less == 1 else 'days'} more for the same trail. How many miles a day fewer does {q.name} "
        f"cover than {p.name}?",
        Step("The trail is {} miles long.", f"{days}*{faster}"),
        Step(f"{q.name} needs {{}} days.", f"{days}+{less}"),
        Step(f"{q.name} covers {{}} miles a day.", f"{way}/{days + less}"),
        Step("The difference is {} miles.", f"{faster}-{slow}"),
    )


def _printing(rng: random.Random) -> Draft:
    pages, copies, rate = rng.randint(4, 25), rng.randint(10, 60), rng.choice((10, 12, 15, 20, 24, 30))
    while pages * copies % rate:
        pages, copies = rng.randint(4, 25), rng.randint(10, 60)
    setup = rng.randint(2, 15)
    total = pages * copies
    what = rng.choice(("a school newspaper", "a concert program", "a travel guide", "a cookbook"))
    return word_problem(
        (pages, copies, rate, setup),
        f"A printer makes {copies} copies of {what} with {pages} pages. It prints {rate} pages a minute, and "
        f"warming it up takes {setup} minutes. How many minutes does the whole job take?",
        Step("There are {} pages to print.", f"{copies}*{pages}"),
        Step("Printing takes {} minutes.", f"{total}/{rate}"),
        Step("The job takes {} minutes.", f"{total // rate}+{setup}"),
    )


TEMPLATES = (
    _two_legs,
    _fuel,
    _meeting,
    _machines,
    _workers,
    _running,
    _basketball,
    _bus_stops,
    _flight_luggage,
    _theatre,
    _hiking,
    _printing,
)
