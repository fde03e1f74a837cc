"""`tools/lookup`: the smallest world: copy hidden prices from a list to labels.

One agent can read the list and the other can write the labels, so a duo solves a task only by handing the
number on. Level 1 copies one price, level 2 copies a price to another ware's label, level 3 copies two. For
very small models on a CPU; not a test of anything else.
"""

from __future__ import annotations

import random

from envs_data.build.draft import Draft, Group
from envs_data.build.tools.row import Goal, Tables, call, spec, task

WARES = (
    "apple", "bread", "butter", "candle", "cheese", "cup", "egg", "flour", "fork", "honey", "jam", "lemon", "milk",
    "nut", "oil", "onion", "pear", "pen", "plum", "rice", "salt", "soap", "spoon", "tea", "towel", "vase",
)  # fmt: skip


def _draw(rng: random.Random) -> tuple[list[str], Tables]:
    wares = rng.sample(WARES, 4)
    prices = rng.sample(range(1, 100), 4)
    shown = {ware: {"price": price} for ware, price in zip(wares, prices, strict=True)}
    return wares, {"prices": shown, "labels": {ware: {"price": 0} for ware in wares}}


def _copy(rng: random.Random, pairs: list[tuple[int, int]], asked: str, level: int) -> Draft:
    """Copy the price of the ware at each first place to the label of the ware at the second."""
    wares, tables = _draw(rng)
    read = {wares[source]: tables["prices"][wares[source]]["price"] for source, _ in pairs}
    goal: Goal = {"labels": {wares[label]: {"price": read[wares[source]]} for source, label in pairs}}
    calls = [call("read_price", ware=ware) for ware in read]
    calls += [call("write_label", ware=wares[label], price=read[wares[source]]) for source, label in pairs]
    first, second = wares[pairs[0][0]], wares[pairs[-1][1]]
    return task(
        "lookup",
        (first, second, *read.values()),
        f"{asked.format(first, second)} On the shelf: {', '.join(sorted(wares))}.",
        tables,
        goal,
        calls,
        difficulty=level,
    )


def own(rng: random.Random) -> Draft:
    """One price, on its own label."""
    return _copy(rng, [(0, 0)], "Write the price of the {} on its label.", 1)


def other(rng: random.Random) -> Draft:
    """One price, on the label of another ware."""
    return _copy(rng, [(0, 1)], "Write the price of the {} on the label of the {}.", 2)


def two(rng: random.Random) -> Draft:
    """Two prices, each on its own label."""
    return _copy(rng, [(0, 0), (1, 1)], "Write the prices of the {} and the {} on their labels.", 3)


SPEC = spec(
    "lookup",
    "The smallest world: copy hidden prices (1..99) from a list, which one agent reads, to labels, which another "
    "writes. For learning runs of very small models; level 1 copies one price, level 3 two.",
    (Group("own", (own,), 160, 40), Group("other", (other,), 40, 20), Group("two", (two,), 40, 20)),
)
