"""Compaction probe: a digit of the first round is asked for in the last one, for very small models.

Importing this module registers it: `marft_envs.make("baselines.probes.compaction:probe/compaction_duo-v0")`.

Each of the first `told` rounds (4 or 7) tells a digit, of the topics a, b, c and so on, and the last one asks for that
of topic a. Every action is one token. Tasks come in blocks of three that differ in the digit of topic a alone: without
it in view every policy wins exactly a third of a split.

| Agent | Acts | Sees |
|---|---|---|
| compactor_0 (trio) | in told rounds that begin with a transcript over `BUDGET` | its last summary, what came after |
| reader_0 | in all told rounds | what was told |
| answerer_0 | in the last round | what was told, and the summary |

Nobody sees the reader's actions: they stand for the work that fills a transcript. `context_rounds` and `compaction`
are left to the caller. With `compaction="compactor_0"` the compactor acts in round 3, and with `told=7` also in round
6. With `context_rounds=WINDOW` it acts before the window leaves anything out, so that both go together.

Version history: v0, first version.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from baselines.probes.digit_games import DIGITS, read, refuse_data
from marft_envs.dependency import by_state, independent, schedule
from marft_envs.dependency.base import Roster
from marft_envs.game.task import Outcome, Task, TaskList, last_outcome
from marft_envs.game.turn import Turn
from marft_envs.registration.task_environment import register_task
from marft_envs.teams.profile import ENVIRONMENT, Profile
from marft_envs.teams.team import Team

TOPICS = "abcdefg"  # one a round
TOLD = (4, 7)  # rounds before the question: the compactor acts once, or twice
CHANCE = 1 / DIGITS
OTHERS = 5  # digits of the other topics
WINDOW = 4  # rounds
BUDGET = 150  # characters of the transcript, which counts the text of each agent
SPLITS: Mapping[str, tuple[int, int]] = {"train": (0, 80), "test": (80, 120)}  # blocks; no split has one of the other
COMPACTOR, READER, ANSWERER = "compactor_0", "reader_0", "answerer_0"


def _teams() -> dict[str, Team]:
    """Return the teams: one agent, a reader with an answering agent, and both with a compactor."""
    compactor, reader, answerer = Profile(COMPACTOR, ""), Profile(READER, ""), Profile(ANSWERER, "", answers=True)
    last = independent(active=[ANSWERER])
    told = schedule([independent(active=[READER]), last], by="phase")
    # The summary is seen from the next round on: column j of row i is 1 where agent j sees agent i.
    compacting = independent(active=[COMPACTOR, READER], delayed=[[0, 1, 1], [0, 0, 0], [0, 0, 0]])
    over_budget = {"when": {"transcript": f"> {BUDGET}"}, "use": schedule([compacting, last], by="phase")}
    return {
        "solo": Team("solo", (answerer,), independent()),
        "duo": Team("duo", (reader, answerer), told),
        "trio": Team("trio", (compactor, reader, answerer), by_state([over_budget], default=told)),
    }


TEAMS: Mapping[str, Team] = _teams()


@dataclass(frozen=True)
class CompactionTask(Task):
    """Digits of the topics, in the order in which they are told."""

    digits: tuple[int, ...] = ()


@dataclass
class CompactionSession:
    """One game: the rounds that were told, and the last summary."""

    task: CompactionTask
    roster: Roster
    told: int = 0
    summary: str | None = None

    @property
    def opening(self) -> Mapping[str, str]:
        """Nothing: all that agents are told stands in the rounds."""
        return {}

    @property
    def start(self) -> Outcome:
        """The first round."""
        return self._next()

    def advance(self, turns: Sequence[Turn], *, round: int, last_round: bool) -> Outcome:
        """Tell the next digit, ask, or judge the answer."""
        said = {turn.agent: turn.action for turn in turns}
        self.summary = said.get(COMPACTOR, self.summary)
        if self.told < len(self.task.digits):
            self.told += 1
            return self._next()
        found, wanted = read(said.get(ANSWERER, ""), DIGITS), self.task.digits[0]
        detail = {} if found is None else {"extracted": found}
        if self.summary is not None:
            detail["kept"] = read(self.summary, DIGITS) == wanted
        return Outcome(float(found == wanted), True, found == wanted, found is None, detail=detail)

    def _next(self) -> Outcome:
        asks = self.told == len(self.task.digits)
        text = f"topic {TOPICS[0]} ?" if asks else _line(self.told, self.task.digits[self.told])
        # private, since the public text of the first round would stay in view as the problem
        private = dict.fromkeys(self.roster.agents, text)
        return Outcome(0.0, False, False, False, detail={"phase": int(asks)}, private=private)


def _line(place: int, digit: int) -> str:
    return f"topic {TOPICS[place]} value {digit}"


class CompactionTasks(TaskList):
    """Digits to remember, as a `TaskSet`.

    Args:
        split: "train" or "test".
        told: Rounds before the question, one of `TOLD`.

    Raises:
        ValueError: An unknown split, or another number of rounds.
    """

    def __init__(self, split: str = "train", told: int = TOLD[0]) -> None:
        if split not in SPLITS or told not in TOLD:
            raise ValueError(f"compaction: found split {split!r}, told {told!r}; wanted {tuple(SPLITS)} and {TOLD}")
        first, end = SPLITS[split]
        others = random.Random("compaction").sample(range(OTHERS ** (told - 1)), SPLITS["test"][1])[first:end]
        self.rounds = told + 1
        super().__init__(
            "compaction",
            [_task(split, told, block, drawn, digit) for block, drawn in enumerate(others) for digit in range(DIGITS)],
        )

    def begin(self, task: Task, roster: Roster, generator: np.random.Generator) -> CompactionSession:
        """Start before the first round; nothing in a game is random."""
        assert isinstance(task, CompactionTask)
        return CompactionSession(task, roster)

    def vote(self, outcomes: Sequence[Outcome | None]) -> object | None:
        """Return the digit that was answered."""
        last = last_outcome(outcomes)
        return None if last is None else last.detail.get("extracted")

    def oracle(self, task: Task, agent: str, observation: Any) -> str:
        """Return the digit of topic a if it is in view, else the last summary in view, else 0."""
        start = _line(0, 0)[:-1]
        texts = [m["content"] for m in observation.messages if m.get("name") == ENVIRONMENT]
        told = [text.removeprefix(start) for text in texts if text.startswith(start)]
        kept = [m["content"] for m in observation.messages if m.get("name") == COMPACTOR]
        answer: str = ["0", *kept, *told][-1]
        return answer


def _task(split: str, told: int, block: int, drawn: int, digit: int) -> CompactionTask:
    digits = (digit, *(drawn // OTHERS**place % OTHERS for place in range(told - 1)))
    prompt = "\n".join(_line(place, each) for place, each in enumerate(digits))
    return CompactionTask(f"compaction-{split}-{block:03d}-{digit}", prompt, str(digit), split, digits=digits)


def _load(data: Any, split: str, *, told: int = TOLD[0]) -> CompactionTasks:
    refuse_data(data, "compaction")
    return CompactionTasks(split, told)


register_task(
    "compaction",
    _load,
    teams=TEAMS,
    namespace="probe",
    description="probe game compaction: an agent's summary replaces a transcript that is too long",
    solo=TEAMS["solo"],
    force=True,
    keywords=("told",),
    horizon=max(TOLD) + 1,
)
