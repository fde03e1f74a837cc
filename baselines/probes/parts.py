"""Probe games in K parts, which show how the tokens that training needs grow with K.

Importing this module registers them: `marft_envs.make("baselines.probes.parts:probe/parts_quartet-v0")`.

| Game | Agent k = 0, ..., K - 1 | Its right answer |
|---|---|---|
| parts | sees a digit of its own and hears nobody | its digit + k |
| links | hears the agent before it; the first agent sees a digit | that digit + k, one more than it should have heard |

Digits count modulo 3, so each agent has a map of three digits to learn. The parts are independent of each other, or
each needs the one before. The reward is the share of right answers; success needs all. One agent alone is told all
digits and gives all answers, a word each, in the order of the agents.

Version history: v0, first version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from baselines.probes.digit_games import DIGITS, read, refuse_data, register_sizes
from marft_envs.dependency import chain, independent
from marft_envs.dependency.base import Roster
from marft_envs.game.task import Outcome, Session, Task, TaskList, last_outcome
from marft_envs.game.turn import Turn
from marft_envs.teams.profile import ENVIRONMENT, Profile
from marft_envs.teams.team import Team

GAMES = ("parts", "links")
SIZES: Mapping[str, int] = {"duo": 2, "trio": 3, "quartet": 4, "octet": 8}
_TASKS: Mapping[str, int] = {"train": 512, "test": 256, "bench": 256}


def team_of(game: str, size: int) -> Team:
    """Return the team of a game: `agent_0` to `agent_N`, all of which answer."""
    name = next((name for name, number in SIZES.items() if number == size), "solo")
    profiles = tuple(Profile(f"agent_{place}", "", True) for place in range(size))
    return Team(name, profiles, independent() if game == "parts" else chain())


@dataclass
class PartsSession:
    """One game: private texts by agent, and the right answer to each part."""

    opening: Mapping[str, str]
    wanted: Sequence[int]
    roster: Roster

    def advance(self, turns: Sequence[Turn], *, round: int, last_round: bool) -> Outcome:
        """Read an answer to each part, and end the game."""
        said = {turn.agent: turn.action for turn in turns}
        actions = [said.get(agent, "") for agent in self.roster.agents]
        if len(actions) == 1:
            actions = actions[0].split()
        answers = [read(action, DIGITS) for action in actions[: len(self.wanted)]]
        right = sum(answer == wanted for answer, wanted in zip(answers, self.wanted, strict=False))
        solved = right == len(self.wanted)
        told = " ".join("-" if answer is None else str(answer) for answer in answers)
        return Outcome(right / len(self.wanted), solved or last_round, solved, not answers, detail={"extracted": told})


class PartsTasks(TaskList):
    """Tasks of a game in parts, as a `TaskSet`.

    Args:
        game: Name of the game, one of `GAMES`.
        parts: Number of parts K, one for each agent of the team.
        split: "train", "test" or "bench".

    Raises:
        ValueError: An unknown game or split.
    """

    default_reward = "outcome"  # the share of right answers: all of many are never right by chance

    def __init__(self, game: str, parts: int, split: str = "train") -> None:
        if game not in GAMES or split not in _TASKS:
            raise ValueError(f"probe: found game {game!r}, split {split!r}; wanted {GAMES} and {tuple(_TASKS)}")
        tasks = [Task(f"{game}-{split}-{i:04d}", "?", "", split) for i in range(_TASKS[split])]
        super().__init__(f"probe_{game}", tasks)
        self.game, self.parts = game, parts

    def begin(self, task: Task, roster: Roster, generator: np.random.Generator) -> Session:
        """Draw the digits of a task; a function of the task alone.

        Raises:
            ValueError: The team has neither one agent nor one for each part.
        """
        agents = roster.agents
        if len(agents) not in (1, self.parts):
            raise ValueError(f"{self.name}: found {len(agents)} agents, wanted {self.parts} or 1")
        split = list(_TASKS).index(task.split)
        rng = np.random.default_rng([GAMES.index(self.game), self.parts, split, self.index(task.id)])
        digits = rng.integers(DIGITS, size=self.parts if self.game == "parts" else 1).tolist()
        wanted = [(digits[k if self.game == "parts" else 0] + k) % DIGITS for k in range(self.parts)]
        told = [f"digit {digit}" for digit in digits]
        opening = {agents[0]: " ".join(told)} if len(agents) == 1 else dict(zip(agents, told, strict=False))
        return PartsSession(opening, wanted, roster)

    def vote(self, outcomes: Sequence[Outcome | None]) -> object | None:
        """Return the answers, as one text."""
        last = last_outcome(outcomes)
        return None if last is None else last.detail.get("extracted")

    def oracle(self, task: Task, agent: str, observation: Any) -> str:
        """Return the best action given what an agent is told and hears."""
        told = [m["content"] for m in observation.messages if m["role"] == "system"]
        heard = [m["content"] for m in observation.messages if m["role"] == "user" and m.get("name") != ENVIRONMENT]
        if not told:
            return str(((read(heard[-1], DIGITS) or 0) + 1) % DIGITS) if heard else "0"
        digits, place = [int(digit) for digit in told[0].split()[1::2]], int(agent.removeprefix("agent_"))
        if self.game == "links":
            digits = digits * self.parts
        return " ".join(str((digit + place + k) % DIGITS) for k, digit in enumerate(digits))


def _load(data: Any, split: str, *, game: str, players: int) -> PartsTasks:
    refuse_data(data)
    return PartsTasks(game, players, split)


for _game in GAMES:
    register_sizes(_game, _load, team_of, SIZES)
