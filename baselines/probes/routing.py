"""Routing probe: an orchestrator must learn whom to ask, through the dependency `routed` of Flex-MG.

Importing this module registers it: `marft_envs.make("baselines.probes.routing:probe/ask_routed-v0")`.

`orchestrator_0` is told a topic, `a` or `b`, and sees nothing else. The expert of that topic, `a_0` or `b_0`, is told
one of three digits, the other expert is not. The orchestrator names one expert, who acts and answers the digit. A text
that names nobody asks `a_0`. Without using the topic, the right expert is asked in half of all games, and a guess is
right in a third of the others: 2/3 in all. `mute=True` hides the topic.

Version history: v0, first version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from baselines.probes.digit_games import DIGITS, ProbeSession, ProbeTasks, read, refuse_data
from marft_envs.dependency import routed
from marft_envs.dependency.base import Roster
from marft_envs.game.task import Outcome, Session, Task
from marft_envs.game.turn import Turn
from marft_envs.registration.task_environment import register_task
from marft_envs.teams.profile import Profile
from marft_envs.teams.team import Team

ORCHESTRATOR, EXPERTS = "orchestrator_0", ("a_0", "b_0")
AGENTS = (ORCHESTRATOR, *EXPERTS)
CHANCE = 1 / 2 + 1 / 2 / DIGITS
TEAM = Team(
    "routed",
    tuple(Profile(agent, "", agent != ORCHESTRATOR) for agent in AGENTS),
    routed(by=ORCHESTRATOR, max_active=1, default=EXPERTS[:1], broadcast=False, reports=False),
)


class AskSession(ProbeSession):
    """One game, in which the last expert that acted answers."""

    def advance(self, turns: Sequence[Turn], *, round: int, last_round: bool) -> Outcome:
        """Read the answer, and end the game."""
        said = [turn.action for turn in turns if turn.agent in self.roster.answering]
        found = read(said[-1], DIGITS) if said else None
        right = found == self.answer
        detail = {} if found is None else {"extracted": found}
        return Outcome(float(right), right or last_round, right, found is None, detail=detail)


class AskTasks(ProbeTasks):
    """Tasks of the routing probe.

    Args:
        split: "train" or "test".
        mute: True to hide the topic from the orchestrator.
    """

    def __init__(self, split: str = "train", mute: bool = False) -> None:
        super().__init__("route", len(AGENTS), split)
        self.name, self.mute = "probe_ask", mute

    def begin(self, task: Task, roster: Roster, generator: np.random.Generator) -> Session:
        """Draw the private knowledge of a task; a function of the task alone."""
        drawn = super().begin(task, roster, generator)
        assert isinstance(drawn, ProbeSession)
        hidden = {ORCHESTRATOR: "topic ?"} if self.mute else {}
        return AskSession({**drawn.opening, **hidden}, self.game, drawn.answer, roster)

    def oracle(self, task: Task, agent: str, observation: Any) -> str:
        """Return the name of the topic's expert, or the digit that the expert is told."""
        told = super().oracle(task, agent, observation)
        return f"-> {told}_0" if agent == ORCHESTRATOR else told


def _load(data: Any, split: str, *, mute: bool = False) -> AskTasks:
    refuse_data(data)
    return AskTasks(split, mute)


register_task(
    "ask",
    _load,
    teams={"routed": TEAM},
    namespace="probe",
    description="probe game ask: an orchestrator learns whom to ask",
    keywords=("mute",),
    force=True,
)
