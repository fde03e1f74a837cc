"""Draw the facts, sessions and questions of a task; a pure function of size, split and place."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from marft_envs.game.task import Task

SPLITS: Mapping[str, int] = {"train": 480, "test": 240}
NAMES = ("Ann", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "June", "Kim", "Lars")
VALUES: Mapping[str, tuple[str, ...]] = {  # of an attribute; a key is a name with an attribute, such as "Ann city"
    "city": ("Lima", "Oslo", "Rome", "Cairo", "Quito", "Tunis"),
    "pet": ("cat", "dog", "parrot", "rabbit", "turtle", "hamster"),
    "drink": ("tea", "coffee", "milk", "juice", "water", "cocoa"),
    "sport": ("chess", "tennis", "rowing", "judo", "golf", "hockey"),
}
LETTERS = "abcdefghijk"
_TRIES = 1000


class Fact(NamedTuple):
    """A fact as a session tells it.

    Attributes:
        key: Name of the fact, such as "Ann city".
        value: Its value from now on.
        changed: True if an earlier session told another value.
    """

    key: str
    value: str
    changed: bool = False


@dataclass(frozen=True)
class RecallSize:
    """Size of the tasks.

    Attributes:
        sessions: Number of sessions, each a round.
        facts: Facts that a session tells.
        distance: Fewest sessions from the last word on the asked fact to the question; 1 is the last session.
        keys: Different facts of a task.
        values: Values of each fact: the choices of the question.
        capacity: Most entries of the store.
        results: Most entries that a query returns.
        chatter: Lines of a session that tell no fact.
        terse: Words of the probe games in place of sentences, for very small models.

    Raises:
        ValueError: A field that cannot be played; the message names it.
    """

    sessions: int = 4
    facts: int = 2
    distance: int = 2
    keys: int = 4
    values: int = 4
    capacity: int = 4
    results: int = 3
    chatter: int = 1
    terse: bool = False

    def __post_init__(self) -> None:
        most_values = 5 if self.terse else min(map(len, VALUES.values()))
        most_keys = len(LETTERS) if self.terse else len(NAMES) * len(VALUES)
        bounds = {
            "distance": (1, 1000),
            "sessions": (self.distance + 1, 1000),  # so that a contradicted fact fits before the distance
            "keys": (2, most_keys),
            "facts": (1, 1 if self.terse else self.keys - (self.distance > 1)),
            "values": (2, most_values),
            "capacity": (1, 1000),
            "results": (1, 1000),
            "chatter": (0, 0 if self.terse else len(CHATTER)),
        }
        for name, (low, high) in bounds.items():
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise ValueError(f"size.{name}: found {value!r}, wanted a whole number from {low} to {high}")

    @classmethod
    def of(cls, spec: str | Mapping[str, Any] | RecallSize) -> RecallSize:
        """Return a size by its name, or from its fields.

        Raises:
            ValueError: An unknown name or field, or a value out of its range.
        """
        if isinstance(spec, RecallSize):
            return spec
        if isinstance(spec, str) and spec in SIZES:
            return SIZES[spec]
        known = [field.name for field in fields(cls)]
        if not isinstance(spec, Mapping) or (unknown := [key for key in spec if key not in known]):
            found = repr(unknown[0]) if isinstance(spec, Mapping) else repr(spec)
            raise ValueError(f"size: found {found}, wanted {', '.join(SIZES)}, or a dict with {', '.join(known)}")
        return cls(**spec)


CHATTER = (
    "The bus was late again.",
    "It rained all morning.",
    "The soup at noon was too salty.",
    "Somebody left the window open.",
    "The printer is out of paper.",
    "We watched a film about whales.",
)
SIZES: Mapping[str, RecallSize] = {
    "tiny": RecallSize(sessions=4, facts=1, keys=2, values=3, capacity=2, results=1, chatter=0, terse=True),
    "small": RecallSize(),
    "medium": RecallSize(sessions=8, facts=3, distance=4, keys=8, capacity=8),
    "large": RecallSize(sessions=16, facts=4, distance=8, keys=16, capacity=16),
}


@dataclass(frozen=True)
class RecallTask(Task):
    """Sessions, and the question that follows.

    Attributes:
        prompt: The whole conversation and the question as text; no agent is shown it as such.
        answer: The value that was told last of the asked key.
        sessions: Facts of each session.
        chatter: Lines without facts of each session, which follow the facts.
        key: The asked key.
        choices: All values of the key, in alphabetical order.
    """

    sessions: tuple[tuple[Fact, ...], ...] = ()
    chatter: tuple[tuple[str, ...], ...] = ()
    key: str = ""
    choices: tuple[str, ...] = ()


def draw(size: RecallSize, split: str) -> list[RecallTask]:
    """Draw all tasks of a split, in blocks of `size.values` tasks that differ in the values alone.

    Value number v of the first task is number v + r (modulo the number of values) in task r of the block. Over a block,
    each choice of the same question is right once.

    Raises:
        ValueError: An unknown split, or a size without tasks.
    """
    if split not in SPLITS:
        raise ValueError(f"recall: found split {split!r}, wanted one of {', '.join(SPLITS)}")
    tasks: list[RecallTask] = []
    for block in range(SPLITS[split] // size.values):
        rng = random.Random(f"recall {sorted(asdict(size).items())} {split} {block}")
        tasks += _block(size, split, block, rng)
    return tasks


def _block(size: RecallSize, split: str, block: int, rng: random.Random) -> list[RecallTask]:
    pool = list(LETTERS) if size.terse else [f"{name} {what}" for name in NAMES for what in VALUES]
    keys = pool[: size.keys] if size.terse else rng.sample(pool, size.keys)
    contradicted = block % 2 == 0
    told, asked = _told(size, keys, contradicted, rng)
    chatter = tuple(tuple(rng.sample(CHATTER, size.chatter)) for _ in told)
    domains = {key: _domain(key, size, rng) for key in keys}
    tasks = []
    for turned in range(size.values):
        sessions, known = [], set[str]()
        for session in told:
            facts = [Fact(key, domains[key][(place + turned) % size.values], key in known) for key, place in session]
            known |= {fact.key for fact in facts}
            sessions.append(tuple(facts))
        answer = next(fact.value for facts in reversed(sessions) for fact in facts if fact.key == asked)
        back = next(back for back, facts in enumerate(reversed(sessions), 1) if asked in [f.key for f in facts])
        tasks.append(
            RecallTask(
                id=f"recall-{split}-{block:03d}-{turned}",
                prompt="",
                answer=answer,
                split=split,
                meta={"sessions": size.sessions, "distance": back, "contradicted": int(contradicted)},
                sessions=tuple(sessions),
                chatter=chatter,
                key=asked,
                choices=tuple(sorted(domains[asked])),
            )
        )
    return tasks


def _domain(key: str, size: RecallSize, rng: random.Random) -> Sequence[str]:
    """Return the values of a key in the order in which a block turns through them."""
    pool = [str(digit) for digit in range(size.values)] if size.terse else list(VALUES[key.rpartition(" ")[2]])
    return rng.sample(pool, size.values)


def _told(
    size: RecallSize, keys: Sequence[str], contradicted: bool, rng: random.Random
) -> tuple[list[list[tuple[str, int]]], str]:
    """Draw the keys and the numbers of the values of each session, and the asked key; tried until one may be asked."""
    for _ in range(_TRIES):
        current: dict[str, int] = {}
        last: dict[str, int] = {}
        again: set[str] = set()
        sessions = []
        for number in range(size.sessions):
            session = []
            for key in rng.sample(keys, size.facts):
                values = [value for value in range(size.values) if value != current.get(key)]
                again |= {key} & current.keys()
                current[key], last[key] = rng.choice(values), number
                session.append((key, current[key]))
            sessions.append(session)
        asked = [key for key in last if last[key] <= size.sessions - size.distance and (key in again) == contradicted]
        if asked:
            return sessions, rng.choice(sorted(asked))
    raise ValueError(f"size: no task found in {_TRIES} tries: wanted more sessions, more keys or a smaller distance")
