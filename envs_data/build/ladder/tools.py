"""`ladder/tools`: one call that sets lamp, heating or blind of a room, in a world declared as data."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from envs_data.build.draft import Attachment, Draft
from envs_data.build.ladder.level import ladder

ROOMS = (
    "kitchen", "hall", "bath", "cellar", "attic", "office", "garage", "bedroom", "library", "studio", "lobby", "shop",
    "bar", "gym", "school", "clinic", "barn", "shed", "porch", "tower", "chapel", "bakery", "canteen", "laundry",
    "museum", "theatre", "workshop", "greenhouse", "nursery", "pantry", "stable", "archive", "lounge", "gallery",
    "corridor", "balcony", "terrace", "cabin", "hangar", "sauna",
)  # fmt: skip
KINDS = ("red", "blue", "green", "white", "old", "new", "small", "big")
FIELDS = {"lamp": ("percent", "light"), "heat": ("degrees", "degrees"), "blind": ("percent", "sun")}
RANGES = {"lamp": (11, 99), "heat": (11, 38), "blind": (11, 99)}
WORDINGS = {  # the first is that of the teams' worked examples
    "lamp": (
        "Dim the lamp of the {room} to {n} percent.",
        "Set the light in the {room} to {n} percent.",
        "Make the {room} {n} percent bright.",
    ),
    "heat": (
        "Heat the {room} to {n} degrees.",
        "Set the {room} to {n} degrees.",
        "Make it {n} degrees in the {room}.",
    ),
    "blind": (
        "Open the blind of the {room} to {n} percent.",
        "Pull up the blind in the {room} to {n} percent.",
        "Let {n} percent of the sun into the {room}.",
    ),
}
SAID = {"lamp": "Dim a lamp.", "heat": "Heat a room.", "blind": "Open a blind."}


def _task(
    rng: random.Random,
    tools: Sequence[str] = ("lamp", "heat"),
    *,
    two_words: bool = False,
    varied: bool = False,
    computed: bool = False,
) -> Draft:
    """Draw a task of one call.

    Args:
        rng: Generator of the template.
        tools: Tools to choose from.
        two_words: True gives rooms names of two words.
        varied: True chooses among three wordings, False takes the first.
        computed: True asks for the number as a sum.
    """
    tool = rng.choice(tools)
    rooms = [f"{rng.choice(KINDS)} {room}" if two_words else room for room in rng.sample(ROOMS, 3)]
    number = rng.randint(*RANGES[tool])
    more = rng.randint(1, 9)
    said = f"{number - more} plus {more}" if computed else str(number)
    wording = rng.choice(WORDINGS[tool]) if varied else WORDINGS[tool][0]
    argument, field = FIELDS[tool]
    row = {
        "world": "home",
        "instruction": wording.format(room=rooms[0], n=said),
        "database": {"rooms": {room: {field: 0 for _, field in FIELDS.values()} for room in sorted(rooms)}},
        "goal": {"rooms": {rooms[0]: {field: number}}},
        "calls": [{"tool": tool, "arguments": {"room": rooms[0], argument: number}}],
    }
    return Draft((tool, rooms[0], said), row)


def _worlds() -> list[dict[str, Any]]:
    """Return the declaration of the world: three tools with two arguments each."""
    tools = []
    for name, (argument, field) in FIELDS.items():
        parameters = {
            "type": "object",
            "required": ["room", argument],
            "additionalProperties": False,
            "properties": {"room": {"type": "string"}, argument: {"type": "integer"}},
        }
        sets = {f"rooms/{{room}}/{field}": f"{{{argument}}}"}
        tools.append({"name": name, "description": SAID[name], "parameters": parameters, "sets": sets})
    return [{"world": "home", "tools": tools}]


SPEC = ladder(
    "tools",
    (
        ("lamp or heating of a room of one word: Heat the barn to 21 degrees.", _task),
        ("the room has two words", lambda rng: _task(rng, two_words=True)),
        ("three wordings for each of the two tools", lambda rng: _task(rng, varied=True)),
        ("a third tool, the blind, which no worked example shows", lambda rng: _task(rng, ["blind"])),
        ("lamp or heating, and the number is a sum: 16 plus 5", lambda rng: _task(rng, computed=True)),
        (
            "three tools, rooms of two words, three wordings, the number is a sum",
            lambda rng: _task(rng, list(FIELDS), two_words=True, varied=True, computed=True),
        ),
    ),
    text_column="instruction",
    columns=("world", "instruction", "database", "goal", "calls"),
    attachments=(Attachment("worlds", ("world", "tools"), _worlds),),
)
