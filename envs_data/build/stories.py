"""`stories`: one-sentence English word problems for very small models.

Level 1 adds two numbers, level 2 subtracts, level 3 adds three numbers. All numbers are 1..9 and no result is
negative. A model of 135 M parameters solves some of them before training and not all of them after it, so they suit
learning experiments on a laptop. They are not a test of mathematics.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from envs_data.build.draft import Draft, Group, SetSpec

NAMES = (
    *(f"{n}/she/her" for n in ("Mia", "Anna", "Lucy", "Emma", "Sara", "Nora", "Lily", "Zoe", "Ruth", "Ivy")),
    *(f"{n}/he/his" for n in ("Tom", "Ben", "Sam", "Leo", "Max", "Dan", "Eli", "Jack", "Omar", "Noah")),
)
THINGS = (
    "marble",
    "coin",
    "book",
    "sticker",
    "pencil",
    "shell",
    "stamp",
    "ball",
    "card",
    "toy car",
    "button",
)
FOODS = ("apple", "cookie", "grape", "plum", "cracker", "muffin", "carrot", "banana", "pancake", "nut")
COLOURED = ("balloon", "bead", "crayon", "cup", "flag", "hat", "kite", "sock", "ribbon", "block")
ANIMALS = ("bird", "duck", "rabbit", "squirrel", "butterfly", "frog", "cat", "bee")
IRREGULAR = {"butterfly": "butterflies", "child": "children", "story": "stories"}


def plural(noun: str) -> str:
    """Return the plural of one of this module's nouns."""
    return IRREGULAR.get(noun, noun + "s")


def counted(number: int, noun: str, adjective: str = "") -> str:
    """Format a counted noun: "1 red ball" or "3 red balls"."""
    words = [str(number), adjective, noun if number == 1 else plural(noun)]
    return " ".join(word for word in words if word)


@dataclass(frozen=True)
class Kind:
    """Kind of question: subject, level, and functions for its numbers and its answer."""

    subject: str
    level: int
    numbers: Callable[[random.Random], tuple[int, ...]]
    answer: Callable[[tuple[int, ...]], int]


def _digit(rng: random.Random) -> int:
    return rng.randint(1, 9)


def _larger_first(rng: random.Random) -> tuple[int, ...]:
    first = rng.randint(2, 9)
    return first, rng.randint(1, first)


ADD = Kind("addition", 1, lambda rng: (_digit(rng), _digit(rng)), sum)
SUBTRACT = Kind("subtraction", 2, _larger_first, lambda n: n[0] - n[1])
ADD_THREE = Kind("three addends", 3, lambda rng: (_digit(rng), _digit(rng), _digit(rng)), sum)


@dataclass(frozen=True)
class Story:
    """Template sentence with placeholders; calling it fills them.

    | placeholder | content |
    |---|---|
    | {n} {n2} {n3} | names |
    | {she} {her} | pronouns of the first person |
    | {a} {b} {c} | numbers |
    | {ax} {bx} {cx} | number and noun |
    | {a0} {b0} {c0} | number, colour and noun |
    | {xs} | plural of the noun |
    | {are} | verb of {ax} |
    | {v} | verb or other variant |
    """

    name: str
    kind: Kind
    sentence: str
    nouns: tuple[str, ...] = THINGS
    variants: tuple[str, ...] = ("",)

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, rng: random.Random) -> Draft:
        """Sample numbers, people and things; return the filled sentence as a draft."""
        numbers = self.kind.numbers(rng)
        text = self.sentence.format(**self._gaps(rng, numbers))
        row = {
            "question": text,
            "answer": str(self.kind.answer(numbers)),
            "level": self.kind.level,
            "subject": self.kind.subject,
        }
        return Draft(numbers, row)

    def _gaps(self, rng: random.Random, numbers: tuple[int, ...]) -> dict[str, Any]:
        people = [person.split("/") for person in rng.sample(NAMES, 3)]
        noun = rng.choice(self.nouns)
        colours = rng.sample(("red", "blue", "green", "yellow", "white", "pink"), 3)
        gaps: dict[str, Any] = {"n": people[0][0], "n2": people[1][0], "n3": people[2][0]}
        gaps |= {"she": people[0][1], "her": people[0][2], "xs": plural(noun), "v": rng.choice(self.variants)}
        gaps["are"] = "is" if numbers[0] == 1 else "are"
        for letter, number, colour in zip("abc", numbers, colours, strict=False):
            gaps[letter] = number
            gaps[letter + "x"] = counted(number, noun)
            gaps[letter + "0"] = counted(number, noun, colour)
        return gaps


GAIN = ("buys", "finds", "gets", "picks up", "wins")
PLACE = ("box", "bag", "jar", "drawer", "basket")
WEEK = ("on Monday and {} on Friday", "before lunch and {} after lunch", "in the morning and {} at night")

ADDITIONS = (
    Story("gets_more", ADD, "{n} has {ax} and {v} {b} more, so how many {xs} does {she} have now?", THINGS, GAIN),
    Story(
        "puts_in",
        ADD,
        "{n} puts {ax} and then {b} more into an empty {v}; how many {xs} are in it now?",
        THINGS,
        PLACE,
    ),
    Story("together", ADD, "{n} has {ax} and {n2} has {bx}; how many {xs} do they have together?"),
    Story(
        "eats",
        ADD,
        "{n} ate {ax} in the morning and {b} {v}, so how many {xs} did {she} eat in all?",
        FOODS,
        ("after lunch", "in the evening", "after school"),
    ),
    Story(
        "reads",
        ADD,
        "If {n} reads {ax} on {v} and {b} on the next day, how many {xs} does {she} read in all?",
        ("page", "poem", "story"),
        ("Monday", "Tuesday", "Thursday", "Saturday"),
    ),
    Story(
        "colours",
        ADD,
        "A {v} sold {a0} and {b0}; how many {xs} did it sell in total?",
        COLOURED,
        ("shop", "store", "market stand"),
    ),
    Story(
        "animals",
        ADD,
        "{n} saw {ax} {v} and {b} more near the house; how many {xs} did {she} see?",
        ANIMALS,
        ("in the park", "by the lake", "in the garden", "at school"),
    ),
    Story("age", ADD, "{n} is {ax} old; how old will {she} be {v} {bx} from now?", ("year",), ("exactly",)),
    Story(
        "price",
        ADD,
        "{n} pays {ax} for {v} and {bx} for a drink; how many dollars does {she} pay in all?",
        ("dollar",),
        ("a sandwich", "a toy", "a ticket", "some soup", "a pen"),
    ),
    Story(
        "walks",
        ADD,
        "{n} walked {ax} {v} and {b} more after lunch; how many {xs} did {she} walk altogether?",
        ("mile", "kilometer"),
        ("in the morning", "before noon", "to the river"),
    ),
    Story(
        "joins",
        ADD,
        "{ax} played {v} when {b} more came to play; how many {xs} played there then?",
        ("boy", "girl", "dog", "child", "cat"),
        ("in the yard", "on the field", "in the hall"),
    ),
    Story(
        "draws",
        ADD,
        "{n} {v} {ax} and then {b} more; how many {xs} is that in total?",
        ("star", "house", "circle", "flower"),
        ("drew", "painted", "cut out"),
    ),
)

SUBTRACTIONS = (
    Story(
        "gives",
        SUBTRACT,
        "{n} has {ax} and {v} {b} of them to {n2}; how many {xs} does {n} have left?",
        THINGS,
        ("gives", "hands", "sells", "lends"),
    ),
    Story("eaten", SUBTRACT, "{n} had {ax} and ate {b}, so how many {xs} were left?", FOODS),
    Story(
        "taken",
        SUBTRACT,
        "There were {ax} {v} until {n} took {b} of them away; how many {xs} are still there?",
        THINGS,
        ("on the table", "in the box", "on the shelf", "in the bag"),
    ),
    Story("more_than", SUBTRACT, "{n} has {ax} and {n2} has {b}; how many more {xs} does {n} have than {n2}?"),
    Story("needs", SUBTRACT, "{n} needs {ax} but has only {b}; how many more {xs} does {she} need?"),
    Story(
        "broke",
        SUBTRACT,
        "{n} carried {ax} home, but {b} of them {v}; how many {xs} are still good?",
        ("egg", "cup", "plate", "balloon", "light"),
        ("broke", "got broken"),
    ),
    Story(
        "flew",
        SUBTRACT,
        "There were {ax} {v} and then {b} went away; how many {xs} stayed?",
        ANIMALS,
        ("on the fence", "in the garden", "near the pond", "under a tree"),
    ),
    Story(
        "spends",
        SUBTRACT,
        "{n} had {ax} and spent {b} on {v}; how many {xs} does {she} have left?",
        ("dollar",),
        ("a book", "a ball", "lunch", "a bus ride", "candy"),
    ),
    Story(
        "got_off",
        SUBTRACT,
        "There were {ax} on the {v} and {b} got off; how many {xs} are still on the {v}?",
        ("boy", "girl", "student", "worker", "player"),
        ("bus", "train", "boat", "tram"),
    ),
    Story(
        "planted",
        SUBTRACT,
        "{n} {v} {ax}, but {b} of them did not grow; how many {xs} did grow?",
        ("seed", "tree", "rose", "bean"),
        ("planted", "put in"),
    ),
)

THREES = (
    Story("colours", ADD_THREE, "{n} has {a0}, {b0} and {c0}; how many {xs} does {she} have in all?", COLOURED),
    Story(
        "days",
        ADD_THREE,
        "{n} {v} {ax} on Monday, {b} on Tuesday and {c} on Sunday; how many {xs} is that in all?",
        THINGS,
        ("found", "bought", "got", "sold"),
    ),
    Story(
        "three",
        ADD_THREE,
        "{n} has {ax}, {n2} has {b} and {n3} has {c}; how many {xs} do all three have together?",
    ),
    Story(
        "scores",
        ADD_THREE,
        "{n} scored {ax} in the first {v}, {b} in the second and {c} in the third; how many {xs} is that?",
        ("point", "goal"),
        ("game", "match", "round"),
    ),
    Story(
        "rooms",
        ADD_THREE,
        "There {are} {ax} {v}, {b} in the hall and {c} in the yard; how many {xs} are there?",
        ("chair", "child", "table", "lamp", "plant"),
        ("in the kitchen", "in the classroom", "in the office"),
    ),
    Story(
        "bakes",
        ADD_THREE,
        "{n} {v} {ax}, then {b} more, and then {c} more; how many {xs} did {she} make?",
        ("cookie", "pie", "muffin", "cake", "roll"),
        ("baked", "made"),
    ),
    Story(
        "spends",
        ADD_THREE,
        "{n} spent {ax} on {v}, {b} on a hat and {c} on tea; how many {xs} did {she} spend?",
        ("dollar",),
        ("lunch", "a book", "fruit", "a ball"),
    ),
    Story(
        "bowl",
        ADD_THREE,
        "{n} puts {ax}, then {b} more and at last {c} more in a {v}; how many {xs} are in it?",
        FOODS,
        ("bowl", "lunch box", "bag", "basket"),
    ),
)

GROUPS = (
    Group("addition", ADDITIONS, 240, 80, bench=160),
    Group("subtraction", SUBTRACTIONS, 180, 60, bench=120),
    Group("three-addends", THREES, 180, 60, bench=120),
)

SPEC = SetSpec(
    name="stories",
    description="One-sentence English word problems for very small models: add two numbers (level 1), "
    "subtract (level 2), add three (level 3); numbers 1..9, results 0..27.",
    groups=GROUPS,
    text_column="question",
    columns=("question", "answer", "level", "subject"),
)
