"""`tools/lookup`: tasks in the smallest world, which copy hidden prices from a list to labels.

One agent can read the list and the other can write the labels, so a duo must communicate the number. Level 1 copies
one price, level 2 copies a price to another ware's label, level 3 copies two prices. It is meant for learning runs
of very small models on a CPU only.
"""

from __future__ import annotations

import random

from envs_data.build.draft import Draft, Group
from envs_data.build.tools.row import Goal, Tables, call, spec, task

WARES = (
    "anchor", "apple", "apron", "arrow", "axe", "bag", "ball", "balloon", "banana", "basket", "bath", "bean", "bed",
    "bell", "belt", "bench", "bike", "blanket", "boat", "book", "boot", "bottle", "bowl", "box", "bread", "brick",
    "bridge", "broom", "brush", "bucket", "bulb", "butter", "button", "cable", "cage", "cake", "camera", "candle",
    "candy", "cap", "car", "card", "carpet", "carrot", "cart", "chain", "chair", "cheese", "cherry", "chip", "clock",
    "cloth", "coat", "coffee", "coin", "cookie", "cord", "corn", "couch", "cream", "crown", "cup", "curtain", "desk",
    "dish", "doll", "door", "dress", "drill", "drum", "egg", "engine", "fan", "fence", "filter", "flag", "flask",
    "flour", "flute", "fork", "frame", "game", "garlic", "gate", "gift", "glass", "globe", "glove", "glue", "grape",
    "guitar", "hammer", "hat", "helmet", "honey", "hook", "horn", "hose", "ink", "jacket", "jam", "jar", "jewel",
    "juice", "key", "kite", "knife", "ladder", "lemon", "lens", "lid", "lock", "map", "mask", "mat", "melon", "milk",
    "mirror", "motor", "mouse", "nail", "needle", "net", "nut", "oil", "onion", "oven", "paint", "pan", "paper",
    "pasta", "peach", "pear", "pen", "pepper", "phone", "piano", "picture", "pie", "pillow", "pin", "pipe", "plant",
    "plate", "plug", "plum", "pot", "powder", "pump", "purse", "puzzle", "quilt", "rack", "radio", "rail", "rice",
    "ring", "robe", "rocket", "roof", "ruler", "rug", "saddle", "salt", "saw", "scale", "screen", "screw", "sheet",
    "shell", "shirt", "shoe", "shovel", "sink", "skirt", "soap", "sock", "sofa", "soup", "spice", "spoon", "stamp",
    "stool", "stove", "sugar", "suit", "sword", "table", "tape", "tea", "tent", "ticket", "tie", "tile", "tool",
    "towel", "toy", "train", "tray", "truck", "tube", "vase", "vest", "violin", "wagon", "wallet", "watch", "wheel",
    "whistle", "wine", "wire", "wool",
)  # fmt: skip


def _draw(rng: random.Random) -> tuple[list[str], Tables]:
    wares = rng.sample(WARES, 4)
    prices = rng.sample(range(1, 100), 4)
    shown = {ware: {"price": price} for ware, price in zip(wares, prices, strict=True)}
    return wares, {"prices": shown, "labels": {ware: {"price": 0} for ware in wares}}


def _copy(rng: random.Random, pairs: list[tuple[int, int]], asked: str, level: int) -> Draft:
    """Create a task that copies prices; each pair holds the index of the price and that of the label."""
    wares, tables = _draw(rng)
    read = {wares[source]: tables["prices"][wares[source]]["price"] for source, _ in pairs}
    goal: Goal = {"labels": {wares[label]: {"price": read[wares[source]]} for source, label in pairs}}
    calls = [call("read_price", ware=ware) for ware in read]
    calls += [call("write_label", ware=wares[label], price=read[wares[source]]) for source, label in pairs]
    first, second = wares[pairs[0][0]], wares[pairs[-1][1]]
    return task(
        "lookup",
        (first, second, *read.values()),
        asked.format(first, second),
        tables,
        goal,
        calls,
        difficulty=level,
    )


def own(rng: random.Random) -> Draft:
    """Copy one price to its own label."""
    return _copy(rng, [(0, 0)], "Write the price of the {} on its label.", 1)


def other(rng: random.Random) -> Draft:
    """Copy one price to the label of another ware."""
    return _copy(rng, [(0, 1)], "Write the price of the {} on the label of the {}.", 2)


def two(rng: random.Random) -> Draft:
    """Copy two prices, each to its own label."""
    return _copy(rng, [(0, 0), (1, 1)], "Write the prices of the {} and the {} on their labels.", 3)


SPEC = spec(
    "lookup",
    "The smallest world: copy hidden prices (1..99) from a list, which one agent reads, to labels, which another "
    "writes. For learning runs of very small models; level 1 copies one price, level 3 two.",
    (Group("own", (own,), 160, 40), Group("other", (other,), 40, 20), Group("two", (two,), 40, 20)),
)
