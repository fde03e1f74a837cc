"""Measure the token cost of each form of communication in the tool worlds, with scripted actions.

    python -m benchmarks.communication_token_cost [--world shop] [--team trio] [--tasks 20] [--json]

A scripted oracle plays tasks of the test split. Each of its actions follows two sentences of reasoning, as models write
them, and ends with a summary line. All agents see all actions (`"sees": "all"`), so that the forms can differ. "read"
counts the tokens of all observations, "carried" those of other agents' messages during the game. The success of the
oracle shows that a form does not break a game. It does not show that a model could do without the omitted text.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

import marft_envs
from baselines.results.visible_console import console
from marft_agents.models.pretrained import load
from marft_envs.tasks.worlds import script

FORMS = ("full", "last", "record", "summary", "tail:80", "none")
THOUGHT = (
    "Let me think about what the customer wants and what we know already. The rules have to be kept, and nothing else "
    "may change, so I do this one step and then look at what came of it.\n"
)


@dataclass(frozen=True)
class Row:
    """Result of one form of communication: solved tasks, and turns and tokens per task."""

    form: str
    tasks: int
    solved: int
    turns: float
    read: float
    carried: float


def measure(world: str, team: str, form: str, count: int, num_tokens: Callable[[str], int]) -> Row:
    """Play the first `count` tasks of a world with one form of communication."""
    seen_by_all = {"kind": "handoff", "sees": "all"}
    env: Any = marft_envs.make(
        f"marft/tools_{team}-v0", data=f"embedded:{world}", split="test", dependency=seen_by_all, communication=form
    )
    tasks = min(count, len(env.unwrapped.tasks))
    openings = {profile.name: len(profile.opening) for profile in env.unwrapped.team.profiles}
    solved = turns = read = carried = 0
    for index in range(tasks):
        env.reset(seed=0, options={"index": index})
        for agent, action in script(env):
            for place, message in enumerate(env.observe(agent).messages):
                size = num_tokens(message["content"])
                read += size
                by_other = message.get("name") not in (None, agent, "environment")
                carried += size if by_other and place >= openings[agent] else 0
            env.step(f"{THOUGHT}```\n{action}\n```\nSummary: one step done.")
            turns += 1
        solved += env.unwrapped.episode().success
    return Row(form, tasks, solved, turns / tasks, read / tasks, carried / tasks)


def main() -> None:
    """Measure all forms of communication and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--world", default="shop")
    parser.add_argument("--team", default="trio")
    parser.add_argument("--tasks", type=int, default=20, help="at most so many of the test split")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    tokenizer = load("smollm2-135m").tokenizer
    rows = [
        measure(arguments.world, arguments.team, form, arguments.tasks, lambda text: len(tokenizer.encode(text)))
        for form in FORMS
    ]
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
        return
    table = Table("form", "solved", "turns a task", "tokens read a task", "tokens carried a task")
    for row in rows:
        solved = f"{row.solved} of {row.tasks}"
        table.add_row(row.form, solved, f"{row.turns:.1f}", f"{row.read:,.0f}", f"{row.carried:,.0f}")
    console().print(table)


if __name__ == "__main__":
    main()
