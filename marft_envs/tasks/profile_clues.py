"""Private clues about a person: each is told to one agent alone, and only all of them together name the person.

A problem lists as many people as there are clues and one more, each with a word: "Ann tea". Every clue excludes one
word, such as "not tea", and the person that is left is sought. So all clues are needed: with one less, two people fit.
The list itself tells nothing, since every person on it may be the one.

| Team | Acts | Sees |
|---|---|---|
| `holders2`, `holders4`, `holders8` | holders in one layer, then a guesser | a holder its clue, the guesser the list |
| `whole2`, `whole4`, `whole8` | one agent | the list and all clues: the ceiling of the team |

Without messages (`communication="none"`) nobody is right more often than by chance, 1 of `clues` + 1: the floor. The
answer is the one name that the guesser says. The splits share no list of people.

Version history: v0, first version.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from marft_envs.dependency.base import Dependency, Roster
from marft_envs.dependency.fixed import Fixed
from marft_envs.game.secrets import Secret
from marft_envs.game.task import Outcome, Task, TaskList, last_outcome
from marft_envs.game.turn import Turn
from marft_envs.teams.profile import ENVIRONMENT, Profile
from marft_envs.teams.team import Team

CLUES = (2, 4, 8)
SPLITS: Mapping[str, int] = {"train": 1000, "test": 400, "bench": 400}
_NAMES = "Ann Ben Carl Dan Eva Frank Jack Jane Kim Leo Lucy Mark Paul Rose Tom"
NAMES = tuple(_NAMES.split())
EXAMPLE_NAMES = ("Gus", "Ida", "Lou", "Ned", "Ora", "Pam", "Roy", "Una", "Zoe")
_LISTED = "red blue green white cat dog horse bird tea milk juice water golf chess tennis judo pear plum fig lemon"
WORDS = tuple(_LISTED.split())
QUESTION = "Who is it?"


@dataclass(frozen=True)
class Sought(Task):
    """A person among others.

    Attributes:
        prompt: The list and all clues; only the agent that sees all is shown it as such.
        answer: Name of the person.
        people: The list, a person a line.
        clues: Words that exclude a person each, such as "not tea".
    """

    people: str = ""
    clues: tuple[str, ...] = ()


@lru_cache(maxsize=8)
def draw(clues: int, split: str) -> tuple[Sought, ...]:
    """Draw the problems of a split; a pure function of its arguments.

    Raises:
        ValueError: An unknown split or number of clues.
    """
    if clues not in CLUES:
        raise ValueError(f"profile: clues: found {clues!r}, wanted one of {', '.join(map(str, CLUES))}")
    if split not in SPLITS:
        raise ValueError(f"profile: found split {split!r}, wanted one of {', '.join(SPLITS)}")
    generator = random.Random(f"profile {clues}")
    drawn: dict[str, dict[str, Any]] = {}  # by list, so that no list is in two splits
    while len(drawn) < sum(SPLITS.values()):
        problem = _problem(generator, NAMES, clues)
        drawn.setdefault("\n".join(sorted(problem["people"].splitlines())), problem)
    first = sum(SPLITS[name] for name in list(SPLITS)[: list(SPLITS).index(split)])
    chosen = list(drawn.values())[first : first + SPLITS[split]]
    return tuple(
        Sought(id=f"profile-{split}-{number:04d}", split=split, meta={"clues": clues}, **problem)
        for number, problem in enumerate(chosen)
    )


def _problem(generator: random.Random, names: Sequence[str], clues: int) -> dict[str, Any]:
    """Draw the fields of a problem."""
    lines = [
        f"{name} {word}"
        for name, word in zip(generator.sample(names, clues + 1), generator.sample(WORDS, clues + 1), strict=True)
    ]
    sought = generator.choice(lines)
    excluded = [f"not {line.split()[1]}" for line in lines if line != sought]
    generator.shuffle(excluded)
    listed = "\n".join(lines)
    return {
        "prompt": f"{listed}\nClues: {', '.join(excluded)}\n{QUESTION}",
        "answer": sought.split()[0],
        "people": listed,
        "clues": tuple(excluded),
    }


class ProfileTasks(TaskList):
    """People to find by clues, as a `TaskSet`.

    Args:
        tasks: Problems, all with as many clues.

    Raises:
        ValueError: Problems with different numbers of clues, or none.
    """

    def __init__(self, tasks: Iterable[Sought]) -> None:
        tasks = tuple(tasks)
        super().__init__("profile", tasks)
        counts = {len(task.clues) for task in tasks}
        if len(counts) != 1:
            raise ValueError(f"profile: problems with {sorted(counts)} clues, wanted one number")
        self.clues = counts.pop()

    @classmethod
    def load(cls, data: Any, split: str, *, clues: int = 2) -> ProfileTasks:
        """Draw the problems of a split.

        Args:
            data: "embedded": the problems are drawn; or a `ProfileTasks` with problems of your own.
            split: "train", "test" or "bench".
            clues: Clues of a problem: 2, 4 or 8; as many as the team has holders.

        Raises:
            ValueError: Other data, or a value that is none of these.
        """
        if data != "embedded":
            raise ValueError(f"profile: found data {data!r}; problems are drawn: leave it out, or give a ProfileTasks")
        return cls(draw(clues, split))

    def for_team(self, team: Team, dependency: Dependency | None = None) -> ProfileTasks:
        """Return these tasks where every clue has its holder, or one agent sees them all.

        Raises:
            ValueError: The holders are more or fewer than the clues.
        """
        holders = len(team.roster.agents) - len(team.roster.answering)
        if holders and holders != self.clues:
            raise ValueError(
                f"profile: team {team.name!r} has {holders} holders for {self.clues} clues: wanted as many"
            )
        return self

    def begin(self, task: Task, roster: Roster, generator: np.random.Generator) -> ProfileSession:
        """Start a game; nothing in it is random."""
        if not isinstance(task, Sought):
            raise TypeError(f"{self.name}: found a {type(task).__name__}, wanted a Sought")
        return ProfileSession(task, roster)

    def vote(self, outcomes: Sequence[Outcome | None]) -> object | None:
        """Return the name that was said."""
        last = last_outcome(outcomes)
        return None if last is None else last.detail.get("extracted")

    def oracle(self, task: Sought, agent: str, observation: Any) -> str:
        """Return the best action given what an agent sees: its clue, or the first person that no clue excludes."""
        own: str = observation.messages[observation.fixed_messages - 1]["content"]
        if own.startswith("Clue: "):
            return own.removeprefix("Clue: ")
        heard = [own.partition("Clues: ")[2]]
        heard += [message["content"] for message in observation.messages[observation.fixed_messages :]]
        people = [line.split() for line in task.people.splitlines()]
        return next(name for name, word in people if not any(f"not {word}" in text for text in heard))


@dataclass
class ProfileSession:
    """One game; plain data.

    Attributes:
        task: The task being played.
        roster: Agents of the team.
    """

    task: Sought
    roster: Roster

    @property
    def opening(self) -> Mapping[str, str]:
        """Nothing: all that agents are told stands in the round."""
        return {}

    @property
    def start(self) -> Outcome:
        """The round: every holder's clue, and the list for the agent that answers."""
        task, clues = self.task, self.secrets
        private = {secret.owner: f"Clue: {secret.text}" for secret in clues}
        shown = f"{task.people}\n{QUESTION}" if clues else task.prompt
        private |= dict.fromkeys(self.roster.answering, shown)
        return Outcome(0.0, terminated=False, success=False, invalid=False, private=private)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The clue of each holder; the answer needs all of them."""
        holders = [agent for agent in self.roster.agents if agent not in self.roster.answering]
        told = zip(holders, self.task.clues, strict=False)  # an agent that sees all is alone
        return tuple(Secret(holder, clue, needed=True) for holder, clue in told)

    def advance(self, turns: Sequence[Turn], *, round: int, last_round: bool) -> Outcome:
        """Judge the name of the agent that answers."""
        said = [turn.action for turn in turns if turn.agent in self.roster.answering]
        listed = [line.split()[0] for line in self.task.people.splitlines()]
        named = {name for name in listed if re.search(rf"\b{name}\b", said[-1] if said else "")}
        right = named == {self.task.answer}
        return Outcome(
            reward=float(right),
            terminated=True,
            success=right,
            invalid=len(named) != 1,
            verdict="It is." if right else "It is not.",
            detail={"extracted": named.pop()} if len(named) == 1 else {},
        )


def profile_teams(clues: int) -> dict[str, Team]:
    """Return the team of holders and the agent that sees all by name, with worked examples of other people."""
    generator = random.Random(f"examples {clues}")
    one = Sought("", split="", **_problem(generator, EXAMPLE_NAMES, clues))
    holders = tuple(
        Profile(f"holder_{place}", "Say your clue.", examples=((f"Clue: {clue}", clue),))
        for place, clue in enumerate(one.clues)
    )
    rule = "Say who is left."
    told = ((ENVIRONMENT, f"{one.people}\n{QUESTION}"), *((f"holder_{i}", clue) for i, clue in enumerate(one.clues)))
    guesser = Profile("guesser_0", rule, answers=True, examples=((told, one.answer),))
    rows = tuple(tuple(int(i < clues and j == clues) for j in range(clues + 1)) for i in range(clues + 1))
    whole = Profile("solo_0", rule, answers=True, examples=((one.prompt, one.answer),))
    return {
        f"holders{clues}": Team(f"holders{clues}", (*holders, guesser), Fixed("matrix", rows=rows)),
        f"whole{clues}": Team(f"whole{clues}", (whole,)),
    }
