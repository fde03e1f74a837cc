"""Memory probe: multi-session recall of size `tiny` for very small models, which must learn to write and to read.

Importing this module registers it: `marft_envs.make("baselines.probes.memory:probe/recall_trio-v0")`.

The task is `marft_envs.tasks.recall`, but agents have no profiles. Four sessions tell one fact each, of two keys and
three digits; a store of two entries lies between them and the question. Every action is one token. The writer sees a
fact, and whether the store holds its key. It must add a new key and update a known one, since a store that only grows
is full when the second value comes. The query must name the asked key, and the answer the digit that was found. Without
memory a third of all games is won.

Version history: v0, first version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from marft_envs.registration.task_environment import register_task
from marft_envs.tasks.recall import SIZES, RecallTasks
from marft_envs.teams.team import FEW_TEAMS, Team

CHANCE = 1 / SIZES["tiny"].values


def team_of(name: str) -> Team:
    """Return a preset team of `recall` without profiles."""
    team = Team.preset(name, family="recall")
    return replace(team, profiles=tuple(replace(each, system_prompt="", examples=()) for each in team.profiles))


TEAMS: Mapping[str, Team] = {name: team_of(name) for name in FEW_TEAMS["recall"]}

register_task(
    "recall",
    partial(RecallTasks.load, size="tiny"),
    teams=TEAMS,
    namespace="probe",
    description="probe game recall: agents learn to write and read a memory",
    keywords=("memory",),
    solo=TEAMS["solo"],
    force=True,
    horizon=6,
    context_rounds=1,
)
