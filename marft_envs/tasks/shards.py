"""Lines of a document in parts, one for each reader: no single agent of the team sees them together.

A problem has 2, 4 or 8 parts of `lines` short lines, such as "Tim 7", and asks for one value of every part: "Rooms of
Tim and Ann?". The names of a problem are all different. The answer is every asked value and no other, in any order.

| Team | Acts | Sees |
|---|---|---|
| `readers2`, `readers4`, `readers8` | readers in one layer, then a writer | a reader its part, the writer messages |
| `relay2`, `relay4`, `relay8` | readers in turn, then a writer | the same; a reader also hears the one before |

All see the question, and a game has one round.

Chained parts name each other: the question gives a name of the first part, whose line gives a name of the second part,
and so on; the last line gives a number. All names on the way and the number are the values.

One agent plays the same problems as a control of these teams, the chained ones with `relay_` before the name:

| Team | Rounds | Sees in a round |
|---|---|---|
| `solo2`, `solo4`, `solo8` | one a part, and one to answer | a part, and its own last note, which is its memory |
| `notes2`, `notes4`, `notes8` | one a part, and one to answer | a part, and all of its notes |
| `whole2`, `whole4`, `whole8` | one | all parts at once, in a large window |

`lines` makes the parts as long as an agent's window allows. The score is the share of right values, lowered by wrong
ones; success needs all of them and nothing else. The splits share no set of asked names.

The more parts, the more a guess of different digits is worth: 0.24, 0.45 and 0.71 of the values for 2, 4 and 8 parts of
four lines. `in_order=True` counts a value only at the place of its part, which leaves 0.1 to a guess.

Version history: v0, first version.
"""

from __future__ import annotations

import operator
import random
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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

PARTS = (2, 4, 8)
SPLITS: Mapping[str, tuple[int, range]] = {  # problems, and the tenths of all sets of asked names that they may ask for
    "train": (1000, range(8)),
    "test": (400, range(8, 9)),
    "bench": (400, range(9, 10)),
}
NOTES = ("last", "all")
VIEWS = ("part", "whole")
# one token each for most tokenizers; the first FEW are enough for short parts
_WORDS = (
    "Adam Alice Anna Ben Beth Bill Bob Carl Chris Clara Dan David Emma Eric Eva Frank Fred Grace Hans Helen Henry "
    "Ian Ivan Jack James Jane Joe John Julia Kate Kim Laura Leo Lily Lisa Lucy Luke Maria Mark Mary Max Mike Nina "
    "Oscar Paul Peter Rose Ruth Sam Sara Simon Tim Tom Victor Alan Alex Amanda Andrew Andy Angela Anthony Arthur "
    "Barbara Brian Bruce Carol Charles Christine Daniel Dave Dean Deborah Dennis Diana Don Donald Edward Elizabeth "
    "Emily Eugene Evan Gary George Greg Harold Harry Howard Jason Jeff Jennifer Jerry Jessica Jim Joan Joseph Karen "
    "Keith Kelly Ken Kevin Larry Linda Louis Margaret Marie Martin Matt Matthew Michael Michelle Nancy Nathan Nick "
    "Patrick Philip Rachel Ray Rebecca Richard Robert Roger Ron Ryan Sarah Scott Sean Sharon Stephen Steve Susan "
    "Thomas Walter Wayne William"
)
_OTHER_WORDS = "Zoe Omar Gus Amy Pia Uma Ted Roy Ida Lou Ned Pam Abe Eli Ora Una"
NAMES, EXAMPLE_NAMES = tuple(_WORDS.split()), tuple(_OTHER_WORDS.split())
FEW = 54
EXAMPLE_LINES = 2
DIGITS = "23456789"
_TRIES = 100_000


@dataclass(frozen=True)
class Shards(Task):
    """A document in parts.

    Attributes:
        prompt: The whole document and the question; only the agent with the large window sees it as such.
        answer: The asked values in the order of the parts, separated by spaces.
        question: The question alone.
        parts: Text of each part.
        sought: The line of each part that the question is about.
    """

    question: str = ""
    parts: tuple[str, ...] = ()
    sought: tuple[str, ...] = ()


@lru_cache(maxsize=8)
def draw(parts: int, lines: int, split: str, *, chained: bool = False) -> tuple[Shards, ...]:
    """Draw the problems of a split; a pure function of its arguments.

    Raises:
        ValueError: An unknown split, or more lines than there are names.
    """
    if parts not in PARTS:
        raise ValueError(f"shards: parts: found {parts!r}, wanted one of {', '.join(map(str, PARTS))}")
    most = len(NAMES) // parts
    if type(lines) is not int or not 2 <= lines <= most:
        raise ValueError(
            f"shards: lines: found {lines!r}, wanted 2 to {most} for {parts} parts, of names all different"
        )
    if split not in SPLITS:
        raise ValueError(f"shards: found split {split!r}, wanted one of {', '.join(SPLITS)}")
    count, tenths = SPLITS[split]
    pool = NAMES[: max(FEW, parts * lines)]
    generator = random.Random(f"shards {parts} {lines} {chained} {split}")
    found: dict[str, Shards] = {}
    for _ in range(_TRIES):
        problem = _problem(generator, pool, parts, lines, chained)
        asked = " ".join(sorted(line.split()[0] for line in problem["sought"]))
        if zlib.crc32(asked.encode()) % 10 in tenths:
            id = f"shards-{split}-{len(found):04d}"
            found.setdefault(problem["prompt"], Shards(id=id, split=split, meta={"parts": parts}, **problem))
        if len(found) == count:
            return tuple(found.values())
    raise ValueError(f"shards: found {len(found)} different problems for {split!r}, wanted {count}")


def _problem(
    generator: random.Random,
    pool: Sequence[str],
    parts: int,
    lines: int,
    chained: bool,
    places: Sequence[int] | None = None,
) -> dict[str, Any]:
    """Draw the fields of a problem; `places` are those of the asked lines in their parts, drawn if None."""
    drawn = generator.sample(pool, parts * lines)
    names = [drawn[place : place + lines] for place in range(0, len(drawn), lines)]
    numbers = generator.sample(DIGITS * -(-len(drawn) // len(DIGITS)), len(drawn))  # as different as they can be
    values = [numbers[place : place + lines] for place in range(0, len(drawn), lines)]
    asked = [generator.randrange(lines) for _ in names] if places is None else places
    for part, following in enumerate(names[1:] if chained else ()):  # lines lead to names of the next part
        values[part] = generator.sample(following, lines)
        wanted = values[part].index(following[asked[part + 1]])
        here = asked[part]
        values[part][here], values[part][wanted] = values[part][wanted], values[part][here]
    texts = [[f"{n} {v}" for n, v in zip(*part, strict=True)] for part in zip(names, values, strict=True)]
    sought = tuple(text[place] for text, place in zip(texts, asked, strict=True))
    first, *others = [line.split()[0] for line in sought]
    question = f"Follow {first}."
    if not chained:
        *others, last = generator.sample([first, *others], parts)
        question = f"Rooms of {', '.join(others)} and {last}?"
    written = tuple("\n".join(text) for text in texts)
    return {
        "prompt": "\n".join([*written, question]),
        "answer": " ".join(line.split()[1] for line in sought),
        "question": question,
        "parts": written,
        "sought": sought,
    }


class ShardTasks(TaskList):
    """Documents in parts with the way in which one agent reads them, as a `TaskSet`.

    Args:
        tasks: Documents, all with as many parts.
        notes: Of one agent that reads the parts in turns: "last" shows it its last note, "all" every note.
        view: Of one agent: "part" shows it the parts in turns, "whole" all at once.
        in_order: True counts a value only at the place of its part.

    Raises:
        ValueError: An unknown way to read, or no tasks.
    """

    default_reward = "outcome"  # the share of right values, so that learning can begin

    def __init__(
        self, tasks: Iterable[Shards], *, notes: str = "last", view: str = "part", in_order: bool = False
    ) -> None:
        tasks = tuple(tasks)
        super().__init__("shards", tasks)
        for name, value, known in (("notes", notes, NOTES), ("view", view, VIEWS)):
            if value not in known:
                raise ValueError(f"shards: {name}: found {value!r}, wanted one of {', '.join(known)}")
        if not isinstance(in_order, bool):
            raise ValueError(f"shards: in_order: found {in_order!r}, wanted True or False")
        self.notes, self.view, self.in_order = notes, view, in_order
        counts = {len(task.parts) for task in tasks}
        if len(counts) != 1:
            raise ValueError(f"shards: documents with {sorted(counts)} parts, wanted one number")
        self.parts = counts.pop()

    @classmethod
    def load(
        cls,
        data: Any,
        split: str,
        *,
        parts: int = 2,
        lines: int = 4,
        chained: bool = False,
        notes: str = "last",
        view: str = "part",
        in_order: bool = False,
    ) -> ShardTasks:
        """Draw the problems of a split.

        Args:
            data: "embedded": the problems are drawn; or a `ShardTasks` with documents of your own.
            split: "train", "test" or "bench".
            parts: Parts of a document: 2, 4 or 8; as many as the team has readers.
            lines: Lines of a part, at least 2.
            chained: True: a part names a line of the next part, so that they must be read one after another.
            notes: Of one agent that reads the parts in turns: "last" shows it its last note, "all" every note.
            view: Of one agent: "part" shows it the parts in turns, "whole" all at once.
            in_order: True: a value counts only at the place of its part.

        Raises:
            ValueError: Other data, or a value that is none of these.
        """
        if data != "embedded":
            raise ValueError(f"shards: found data {data!r}; the problems are drawn: leave it out, or give a ShardTasks")
        return cls(draw(parts, lines, split, chained=chained), notes=notes, view=view, in_order=in_order)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The way in which one agent reads, and whether the order of the values counts."""
        return {"notes": self.notes, "view": self.view} | ({"in_order": True} if self.in_order else {})

    def for_team(self, team: Team, dependency: Dependency | None = None) -> ShardTasks:
        """Return these tasks where every part has its reader, or one agent reads them all.

        Raises:
            ValueError: The readers are more or fewer than the parts.
        """
        readers, parts = len(readers_of(team.roster)), self.parts
        if readers and readers != parts:
            raise ValueError(
                f"shards: team {team.name!r} has {readers} readers for {parts} parts: give parts={readers}"
            )
        if readers and self.view == "whole":
            raise ValueError(f"shards: view='whole' is for one agent, found {readers} readers")
        return self

    def begin(self, task: Task, roster: Roster, generator: np.random.Generator) -> ShardSession:
        """Start a game; nothing in it is random."""
        if not isinstance(task, Shards):
            raise TypeError(f"{self.name}: found a {type(task).__name__}, wanted Shards")
        return ShardSession(self, task, roster)

    def judged(self, task: Shards, answer: str) -> Outcome:
        """Compare the values in an answer with the asked ones, in any order or place by place."""
        wanted, said = task.answer.split(), re.findall(r"\d+|\b[A-Z][a-z]+\b", answer)
        if all(value.isdecimal() for value in wanted):  # a name beside each number is no value
            said = [value for value in said if value.isdecimal()]
        if self.in_order:
            right = sum(map(operator.eq, wanted, said))
        else:
            right = sum((Counter(wanted) & Counter(said)).values())
        success = right == len(wanted) == len(said)
        share = right / max(len(wanted), len(said))
        return Outcome(
            reward=share,
            terminated=True,
            success=success,
            invalid=not said,
            verdict=f"{right} of {len(wanted)} values are right.",
            detail={"progress": share, "extracted": " ".join(said if self.in_order else sorted(said))},
        )

    def vote(self, outcomes: Sequence[Outcome | None]) -> object | None:
        """Return the values that were answered."""
        last = last_outcome(outcomes)
        return (last.detail["extracted"] or None) if last is not None and "extracted" in last.detail else None

    def oracle(self, task: Shards, agent: str, observation: Any) -> str:
        """Return the best action given what an agent sees; it knows which lines are sought, and tells those it saw."""
        texts = [message["content"] for message in observation.messages]
        told = [message["content"] for message in observation.messages if message.get("name") == ENVIRONMENT][-1]
        seen = [line for line in task.sought if any(re.search(rf"\b{line}\b", text) for text in texts)]
        if task.question.startswith("Follow"):  # a line is of use where the way to it is known
            seen = [line for line in seen if any(f" {line.split()[0]}" in text for text in texts)]
        here = [line for line in seen if line in told.splitlines()]
        if not here or len(here) == len(task.parts):
            return " ".join(line.split()[1] for line in seen)
        return " ".join(seen if self.notes == "last" and "reader" not in agent else here)


def readers_of(roster: Roster) -> tuple[str, ...]:
    """Return the agents that read a part each: those that do not answer."""
    return tuple(agent for agent in roster.agents if agent not in roster.answering)


@dataclass
class ShardSession:
    """One game; plain data beside the shared tasks.

    Attributes:
        tasks: Tasks shared by all games.
        task: The task being played.
        roster: Agents of the team.
        notes: What one agent that reads in turns has said so far, as far as it is shown it.
    """

    tasks: ShardTasks
    task: Shards
    roster: Roster
    notes: list[str] = field(default_factory=list)

    @property
    def opening(self) -> Mapping[str, str]:
        """Nothing: all that agents are told stands in the rounds."""
        return {}

    @property
    def start(self) -> Outcome:
        """The first round: every reader's part, or what one agent sees first."""
        task, readers = self.task, readers_of(self.roster)
        private = dict.fromkeys(self.roster.answering, task.question)
        for reader, part in zip(readers, task.parts, strict=False):
            private[reader] = told(part, task.question)
        if not readers:
            first = task.prompt if self.tasks.view == "whole" else told(task.parts[0], task.question)
            private = dict.fromkeys(self.roster.agents, first)
        return self._next(private)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The lines of each reader; the answer needs those that the question is about."""
        found = []
        for reader, part in zip(readers_of(self.roster), self.task.parts, strict=False):
            found += [Secret(reader, line, needed=line in self.task.sought) for line in part.splitlines()]
        return tuple(found)

    def advance(self, turns: Sequence[Turn], *, round: int, last_round: bool) -> Outcome:
        """Take the note of one agent that reads in turns, or judge the answer."""
        said = [turn.action for turn in turns if turn.agent in self.roster.answering]
        answer = said[-1] if said else ""
        in_turns = not readers_of(self.roster) and self.tasks.view == "part"
        if not in_turns or round >= len(self.task.parts):
            return self.tasks.judged(self.task, answer)
        self.notes = [*(self.notes if self.tasks.notes == "all" else ()), " ".join(answer.split())]
        part = self.task.parts[round + 1] if round + 1 < len(self.task.parts) else ""
        return self._next(dict.fromkeys(self.roster.agents, told(part, self.task.question, self.notes)))

    def _next(self, private: Mapping[str, str]) -> Outcome:
        return Outcome(0.0, terminated=False, success=False, invalid=False, private=private)


def told(part: str, question: str, notes: Sequence[str] = ()) -> str:
    """Return what an agent is shown in a round.

    Args:
        part: Lines to read; empty where only the answer is left.
        question: Question about the whole document.
        notes: What the agent itself has written before.
    """
    written = "; ".join(note for note in notes if note)
    # the part comes first: it is the same in all games of a problem, so that their prompts share it
    return "\n".join(text for text in (part, f"Notes: {written}" if written else "", question) if text)


# ------------------------------------------------------------------ teams


def shard_teams(parts: int, *, chained: bool = False) -> dict[str, Team]:
    """Return the team of readers and the one agents by name, with worked examples of other names.

    Args:
        parts: Number of readers.
        chained: True for the teams of chained parts.
    """
    generator = random.Random(f"examples {parts} {chained}")
    # the asked lines stand by turns at another place, so that no example says which line to take
    places = [[(first + part) % EXAMPLE_LINES for part in range(parts)] for first in (1, 0)]
    one, other = (
        Shards("", split="", **_problem(generator, EXAMPLE_NAMES, parts, EXAMPLE_LINES, chained, each))
        for each in places
    )
    rule = "Copy the line of the name."
    prefix = "relay" if chained else "readers"
    readers = []
    for number in range(parts):
        example: list[tuple[Any, str]] = [(told(one.parts[0], one.question), one.sought[0])]
        if chained and number:
            heard = ((ENVIRONMENT, told(one.parts[1], one.question)), (f"reader_{number - 1}", one.sought[0]))
            example.append((heard, one.sought[1]))
        else:
            more, place = (other, 0) if chained else (one, 1)
            example.append((told(more.parts[place], more.question), more.sought[place]))
        readers.append(Profile(f"reader_{number}", rule, examples=tuple(example)))
    said_by_all = ((ENVIRONMENT, one.question), *((f"reader_{i}", line) for i, line in enumerate(one.sought)))
    writer = Profile("writer_0", "Answer the question.", answers=True, examples=((said_by_all, one.answer),))
    rows = [[int(j == parts or (chained and j == i + 1)) for j in range(parts + 1)] for i in range(parts)]
    matrix = Fixed("matrix", rows=tuple(map(tuple, [*rows, [0] * (parts + 1)])))
    made = {f"{prefix}{parts}": Team(f"{prefix}{parts}", (*readers, writer), matrix)}
    named = "relay_" if chained else ""
    # the two first turns show one line each, so that they invite no guess of a line that is in a later part
    first = [(told(each.parts[0], each.question), each.sought[0]) for each in (other, one)]
    for mode in ("solo", "notes"):
        kept = list(one.sought)
        second = kept[1] if mode == "notes" else " ".join(kept[:2])
        shown = kept if mode == "notes" else [" ".join(kept)]
        examples = (
            *first,
            (told(one.parts[1], one.question, kept[:1]), second),
            (told("", one.question, shown), one.answer),
        )
        prompt = f"{rule} Keep your notes. At the end answer the question."
        made[f"{named}{mode}{parts}"] = _one(f"{named}{mode}{parts}", prompt, examples)
    whole = tuple((each.prompt, each.answer if chained else " ".join(each.sought)) for each in (other, one))
    made[f"{named}whole{parts}"] = _one(f"{named}whole{parts}", "Copy the lines of the names.", whole)
    return made


def _one(name: str, prompt: str, examples: tuple[tuple[Any, str], ...]) -> Team:
    return Team(name, (Profile("solo_0", prompt, answers=True, examples=examples),))
