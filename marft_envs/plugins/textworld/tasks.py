"""Games of TextWorldExpress as a `TaskSet`, and the session of a game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from marft_envs import Outcome, Task, Turn, UnknownTaskError
from marft_envs.dependency import Roster
from marft_envs.plugins.textworld import java_games
from marft_envs.plugins.textworld.java_games import Start, State

SEEDS = {"train": range(1000), "dev": range(10000, 11000), "test": range(20000, 21000)}  # as the package has them
_SEEN_BY = ("all", "planner")


class TextWorldTasks:
    """Games of one kind, one for each seed of a split.

    Args:
        game: Name of the game.
        split: "train", "dev" or "test".
        params: Settings of the game, such as "numLocations=5,includeDoors=0".
        show_actions: False to leave the possible actions out of the observation.
        seen_by: "all", or "planner": only agents that do not answer see the game's texts.

    Raises:
        PackageError: The package or Java is missing, or the package is another version.
        ValueError: No such split, or settings that the game refuses.
    """

    def __init__(
        self, game: str, split: str = "train", *, params: str = "", show_actions: bool = True, seen_by: str = "all"
    ) -> None:
        self.name = f"textworld_{game}"
        if split not in SEEDS:
            raise ValueError(f"{self.name}: found the split {split!r}, wanted one of {', '.join(SEEDS)}")
        if seen_by not in _SEEN_BY:
            raise ValueError(f"{self.name}: found seen_by={seen_by!r}, wanted one of {', '.join(_SEEN_BY)}")
        java_games.check()
        self.game, self.split, self.params = game, split, params
        self.show_actions, self.seen_by = show_actions, seen_by
        if params:
            _first(self.start(0))  # raises if the game refuses them

    @property
    def settings(self) -> dict[str, Any]:
        """Settings for the record of a game."""
        package = f"{java_games.PACKAGE.name}=={java_games.PACKAGE.version}"
        return {"package": package, "split": self.split, "params": self.params, "seen_by": self.seen_by}

    def __len__(self) -> int:
        return len(SEEDS[self.split])

    def __deepcopy__(self, memo: object) -> TextWorldTasks:
        return self

    def __getitem__(self, index: int, /) -> Task:
        description, state = _first(self.start(index))
        text = "" if self.seen_by == "planner" else f"\n\n{self.told(state)}"
        return Task(f"{self.game}-{SEEDS[self.split][index]}", f"{description}{text}", "", self.split)

    def start(self, index: int) -> Start:
        """Return the first state of a game."""
        return Start(self.game, self.params, self.split, SEEDS[self.split][index])

    def index(self, task_id: str, /) -> int:
        """Return the index of a game.

        Raises:
            UnknownTaskError: No such id.
        """
        game, _, seed = str(task_id).rpartition("-")
        if game != self.game or not seed.isdecimal() or int(seed) not in SEEDS[self.split]:
            raise UnknownTaskError(task_id, (f"{self.game}-{seed}" for seed in SEEDS[self.split][:3]), self.name)
        return int(seed) - SEEDS[self.split][0]

    def begin(self, task: Task, roster: Roster, generator: np.random.Generator) -> TextWorldSession:
        """Start a game; all that is random in it comes from its seed.

        Raises:
            ValueError: Only planners see the game's texts, and the team has none.
        """
        advisers = frozenset(roster.agents) - roster.answering
        if self.seen_by == "planner" and not advisers:
            raise ValueError(f"{self.name}: seen_by='planner' needs an agent that does not answer, as the duo has")
        start = self.start(self.index(task.id))
        seeing = advisers if self.seen_by == "planner" else None
        return TextWorldSession(self, start, roster.answering, seeing, _first(start)[1])

    def told(self, state: State) -> str:
        """Return the text of a state."""
        actions = f"\nPossible actions: {', '.join(state.valid)}" if self.show_actions else ""
        return f"{state.text}\nScore: {state.score:.2f}{actions}"

    def valid_actions(self, session: TextWorldSession, agent: str) -> Sequence[str]:
        """Return the possible actions; an agent that advises chooses among them, too."""
        return session.state.valid

    def oracle_action(self, session: TextWorldSession, agent: str) -> str:
        """Return the next action of the package's own solution; agents that do not answer propose it."""
        gold = _gold(session.game)
        action = gold[min(len(session.actions), len(gold) - 1)]
        return action if agent in session.answering else f"The best action is: {action}"


@dataclass
class TextWorldSession:
    """One game, as plain data.

    Attributes:
        tasks: Tasks shared by all games.
        game: First state of the game.
        answering: Agents whose actions are taken.
        seeing: Agents that see the game's texts; None: all.
        state: Present state of the game.
        actions: Actions so far.
    """

    tasks: TextWorldTasks
    game: Start
    answering: frozenset[str]
    seeing: frozenset[str] | None
    state: State
    actions: tuple[str, ...] = ()

    @property
    def opening(self) -> Mapping[str, str]:
        """The first text of the game, where not all agents see it."""
        return {agent: self.tasks.told(self.state) for agent in sorted(self.seeing or ())}

    def advance(self, turns: Sequence[Turn], *, round: int, last_round: bool) -> Outcome:
        """Take the action of the last answering agent; one that is not possible changes nothing."""
        said = [turn.action for turn in turns if turn.agent in self.answering]
        action = read_action(said[-1] if said else "", self.state.valid)
        if action is None:
            text = f"That is not a possible action.\n{self.tasks.told(self.state)}"
            return self._outcome(0.0, text, invalid=True)
        before = self.state.score
        self.state = java_games.step(self.game, self.actions, action)
        self.actions = (*self.actions, action)
        return self._outcome(self.state.score - before, self.tasks.told(self.state), invalid=False)

    def _outcome(self, reward: float, text: str, *, invalid: bool) -> Outcome:
        seen = {"observation": text} if self.seeing is None else {"private": dict.fromkeys(sorted(self.seeing), text)}
        done = self.state.won or self.state.lost
        progress = {"progress": max(0.0, self.state.score)}
        return Outcome(reward, done, self.state.won, invalid, detail=progress, **seen)


def read_action(text: str, valid: Sequence[str]) -> str | None:
    r"""Return the last line that is a possible action, whatever its case; None if there is none.

    Examples:
        >>> read_action("The door is open.\n> Move North.", ["move north", "take coin"])
        'move north'
    """
    known = {action.lower(): action for action in valid}
    for line in reversed(text.splitlines()):
        if (action := line.strip(" \t>*`.").lower()) in known:
            return known[action]
    return None


@lru_cache(maxsize=1024)
def _first(start: Start) -> tuple[str, State]:
    return java_games.begin(start)


@lru_cache(maxsize=256)
def _gold(start: Start) -> tuple[str, ...]:
    return java_games.gold_actions(start)
