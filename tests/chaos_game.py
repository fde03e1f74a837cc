"""A game for `tests/chaos.py`: the last agent's digit is printed by a program, and a judge compares it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from baselines.probes.digit_games import DIGITS, ProbeSession, ProbeTasks, read, team_of
from marft_envs.dependency.base import Roster
from marft_envs.game.task import Outcome, Session, Task
from marft_envs.game.turn import Turn
from marft_envs.registration.task_environment import register_task
from marft_envs.sandbox import Limits, Test
from marft_envs.sandbox.shared_judges import shared_judge


@dataclass
class JudgedSession(ProbeSession):
    """A game of `copy` that ends with a judged program."""

    def advance(self, turns: Sequence[Turn], *, round: int, last_round: bool) -> Outcome:
        """Judge the program that prints the answer."""
        found = read(turns[-1].action, DIGITS)
        tests = [Test(b"", str(self.answer).encode())]
        judged = shared_judge("landlock").run(f"print({found!r})", "python", tests, Limits(cpu_s=10, wall_s=60))
        right = str(judged.verdict) == "OK"
        return Outcome(float(right), True, right, found is None, detail={"verdict": str(judged.verdict)})


class JudgedTasks(ProbeTasks):
    """Tasks of `copy` for two agents."""

    def begin(self, task: Task, roster: Roster, generator: np.random.Generator) -> Session:
        """Draw the private knowledge of a task; a function of the task alone."""
        drawn = super().begin(task, roster, generator)
        return JudgedSession(**vars(drawn))


def _load(data: Any, split: str) -> JudgedTasks:
    return JudgedTasks("copy", 2, split)


register_task("judged", _load, teams={"duo": team_of("copy", 2)}, namespace="chaos", force=True)
