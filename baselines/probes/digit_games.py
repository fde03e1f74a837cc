"""Probe games: the smallest tasks that need a team, for teams of any size and very small models.

Importing this module registers them: `marft_envs.make("baselines.probes.digit_games:probe/copy_duo-v0")`.

| Game | Private knowledge | Success |
|---|---|---|
| copy | the first agent sees a digit | the last agent says it; every agent hears only the one before it |
| sum | each agent sees a digit | the last agent says the sum modulo 3 |
| route | the first agent sees a topic, that topic's expert a value | the expert that the first agent names says it |

An action is read by its first character that is no blank: the digit is its code point modulo 3, so "0", "1" and "2" are
themselves, and a random character is right in a third of all games. `route` names the expert by a letter, read
modulo the number of experts. One agent alone is told all that the team knows together. Tasks differ in their private
knowledge only and there are few of them, so training and test tasks are alike.

Version history: v0, first version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from marft_envs.dependency import chain, independent
from marft_envs.dependency.base import Roster
from marft_envs.game.task import Outcome, Session, Task, TaskList, last_outcome
from marft_envs.game.turn import Turn
from marft_envs.registration.task_environment import register_task
from marft_envs.teams.profile import ENVIRONMENT, Profile
from marft_envs.teams.team import Team

GAMES = ("copy", "sum", "route")
SIZES: Mapping[str, int] = {"duo": 2, "quartet": 4, "octet": 8, "dozen": 12}
DIGITS = 3
_TASKS: Mapping[str, int] = {"train": 512, "test": 256}
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def team_of(game: str, size: int) -> Team:
    """Return the team of a probe game: `agent_0` to `agent_N`; in `route` a router and experts.

    Args:
        game: Name of the game, one of `GAMES`.
        size: Number of agents.
    """
    answers = [place == size - 1 or (game == "route" and place > 0) for place in range(size)]
    profiles = tuple(Profile(f"agent_{place}", "", answers[place]) for place in range(size))
    name = next((name for name, number in SIZES.items() if number == size), "solo" if size == 1 else f"team_{size}")
    return Team(name, profiles, independent() if game == "route" else chain())


@dataclass
class ProbeSession:
    """One game: private texts by agent, and the right answer."""

    opening: Mapping[str, str]
    game: str
    answer: int
    roster: Roster

    def advance(self, turns: Sequence[Turn], *, round: int, last_round: bool) -> Outcome:
        """Read the answer, and end the game."""
        said = {turn.agent: turn.action for turn in turns}
        speaker = self.roster.agents[-1]
        if self.game == "route" and len(self.roster.agents) > 1:
            experts = self.roster.agents[1:]
            speaker = experts[read(said.get(self.roster.agents[0], ""), len(experts), first="a") or 0]
        found = read(said.get(speaker, ""), DIGITS)
        right = found == self.answer
        detail = {} if found is None else {"extracted": found}
        return Outcome(float(right), right or last_round, right, found is None, detail=detail)


def read(action: str, count: int, first: str = "0") -> int | None:
    """Return the number that an action means, in [0, count); None for a blank one.

    Examples:
        >>> read(" 2", 3), read("c", 11, first="a"), read("5", 3), read("", 3)
        (2, 2, 2, None)
    """
    text = action.strip()
    return (ord(text[0]) - ord(first)) % count if text else None


class ProbeTasks(TaskList):
    """Tasks of a probe game for a number of players, as a `TaskSet`.

    Args:
        game: Name of the game, one of `GAMES`.
        players: Number of agents among which the knowledge is split, >= 2.
        split: "train" or "test".

    Raises:
        ValueError: An unknown game or split, or too few players.
    """

    def __init__(self, game: str, players: int, split: str = "train") -> None:
        if game not in GAMES or split not in _TASKS:
            raise ValueError(f"probe: found game {game!r}, split {split!r}; wanted {GAMES} and {tuple(_TASKS)}")
        if not 2 <= players <= len(_LETTERS):
            raise ValueError(f"probe: players = {players}, wanted 2 to {len(_LETTERS)}")
        self.players = players
        count = _TASKS[split]
        super().__init__(f"probe_{game}", [Task(f"{game}-{split}-{i:04d}", "?", "", split) for i in range(count)])
        self.game = game

    def begin(self, task: Task, roster: Roster, generator: np.random.Generator) -> Session:
        """Draw the private knowledge of a task; a function of the task alone.

        Raises:
            ValueError: The team has neither one agent nor as many as there are players.
        """
        if len(roster.agents) not in (1, self.players):
            raise ValueError(f"{self.name}: found {len(roster.agents)} agents, wanted {self.players} or 1")
        place = self.index(task.id)
        rng = np.random.default_rng([GAMES.index(self.game), self.players, int(task.split == "test"), place])
        told, answer = self._deal(rng)
        if len(roster.agents) == 1:
            told = {0: " ".join(text for text in told.values() if text)}
        return ProbeSession({roster.agents[i]: text for i, text in told.items()}, self.game, answer, roster)

    def _deal(self, rng: np.random.Generator) -> tuple[dict[int, str], int]:
        """Return what each place of the team is told, and the right answer."""
        if self.game == "copy":
            digit = int(rng.integers(DIGITS))
            return {0: f"digit {digit}"}, digit
        if self.game == "sum":
            digits = rng.integers(DIGITS, size=self.players).tolist()
            return {i: f"digit {digit}" for i, digit in enumerate(digits)}, sum(digits) % DIGITS
        topic, value = int(rng.integers(self.players - 1)), int(rng.integers(DIGITS))
        told = {1 + i: f"{_LETTERS[i]} {value if i == topic else '?'}" for i in range(self.players - 1)}
        return {0: f"topic {_LETTERS[topic]}", **told}, value

    def vote(self, outcomes: Sequence[Outcome | None]) -> object | None:
        """Return the digit that was answered."""
        last = last_outcome(outcomes)
        return None if last is None else last.detail.get("extracted")

    def oracle(self, task: Task, agent: str, observation: Any) -> str:
        """Return the best action given what an agent is told and hears."""
        told = [message["content"].split()[-1] for message in observation.messages if message["role"] == "system"]
        said = [m["content"] for m in observation.messages if m["role"] == "user" and m.get("name") != ENVIRONMENT]
        if self.game == "sum":
            return str((int(told[0]) + (read(said[-1], DIGITS) or 0 if said else 0)) % DIGITS)
        if told:
            return told[0] if told[0] != "?" else "0"
        return said[-1] if said else "0"


def refuse_data(data: Any, name: str = "probe") -> None:
    """Raise ValueError if a probe game, whose tasks are drawn, is given data."""
    if data != "embedded":
        raise ValueError(f"{name}: data = {data!r}: the tasks are drawn, leave it out")


def _load(data: Any, split: str, *, game: str, players: int) -> ProbeTasks:
    refuse_data(data)
    return ProbeTasks(game, players, split)


def register_sizes(
    game: str, load: Callable[..., TaskList], team: Callable[[str, int], Team], sizes: Mapping[str, int]
) -> None:
    """Register a probe game for teams of several sizes.

    Args:
        game: Name of the game.
        load: Returns its tasks, given data and split, and by name the game and the number of players.
        team: Returns the team of a game and a number of agents; 1 is the one agent alone.
        sizes: Number of agents by name of the team.
    """
    for name, size in sizes.items():
        register_task(
            game,
            load,
            teams={name: team(game, size)},
            namespace="probe",
            description=f"probe game {game} for {size} agents",
            rules={"game": game, "players": size},
            solo=team(game, 1),
            force=True,
        )


for _game in GAMES:
    register_sizes(_game, _load, team_of, SIZES)
