"""A tool duo in which the message decides: the agent with the tool does not see the problem.

Only `reader_0` is told which of three wares is wanted. `writer_0` writes the price of a ware on its label, and learns
which one from the words of `reader_0` alone. World, tools and grading are those of `marft/tools_duo-v0`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np

import marft_envs
from marft_envs import Outcome, Profile, Task, Team
from marft_envs.dependency import chain
from marft_envs.dependency.base import Roster
from marft_envs.tasks.tools import Goal, ToolTasks
from marft_envs.tasks.tools.session import WorldSession
from marft_envs.tasks.worlds import Lookup, load
from marft_envs.wrappers.base import AnyAEC

NUM_WARES = 3
TEAM = Team(
    "tool duo",
    (
        Profile("reader_0", "Tell writer_0 which ware is wanted.", tools=("read_price",)),
        Profile("writer_0", "Write the label that is wanted, then finish.", answers=True, tools=("*",)),
    ),
    dependency=chain(),
)
_SOURCE = load("embedded:lookup")[0]  # its wares and prices
PRICES = {ware: row["price"] for ware, row in islice(_SOURCE.state["prices"].items(), NUM_WARES)}
TEXTS = {
    "reader_0": tuple(f"{ware}: {price}" for ware, price in PRICES.items()),
    "writer_0": tuple(f'write_label(ware="{ware}", price={price})\nfinish()' for ware, price in PRICES.items()),
}
TASKS = tuple(
    replace(
        _SOURCE,
        id=f"tool-duo-{ware}",
        prompt=f"Wanted: {ware}.",
        goal=Goal({f"labels/{ware}/price": price}),
        reference=(),
    )
    for ware, price in PRICES.items()
)


class ReaderKnows(WorldSession):
    """Session that shows the problem to `reader_0` alone."""

    @property
    def start(self) -> Outcome:
        """The first round opens with the problem, for one agent."""
        return Outcome(0.0, False, False, False, observation="", private={"reader_0": self.task.prompt})


class ReaderTasks(ToolTasks):
    """Tasks whose problem only `reader_0` sees."""

    def begin(self, task: Task, roster: Roster, generator: np.random.Generator) -> ReaderKnows:
        """Start the world of one game."""
        return ReaderKnows(**vars(super().begin(task, roster, generator)))


def make_tool_duo(*, muted: bool = False) -> AnyAEC:
    """Make the game.

    Args:
        muted: `writer_0` hears nothing: the control, in which no team wins more often than by chance.
    """
    data = ReaderTasks("tool duo", [Lookup], TASKS, listing="names")
    carried = "none" if muted else "full"
    return marft_envs.make("marft/tools_duo-v0", data=data, team=TEAM, horizon=1, communication=carried)
