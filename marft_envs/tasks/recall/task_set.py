"""Task set of multi-session recall, and the session with the store of one game."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from marft_envs.dependency.base import Roster
from marft_envs.game.task import Outcome, Task, TaskList, last_outcome
from marft_envs.game.turn import Turn
from marft_envs.tasks.recall.facts import RecallSize, RecallTask, draw
from marft_envs.tasks.recall.policies import Memory
from marft_envs.tasks.recall.store import Entry, Store, words
from marft_envs.tasks.recall.wording import Sentences, Terse, Wording, value_told
from marft_envs.teams.profile import ENVIRONMENT

WRITE, QUERY, ANSWER, DISTIL = range(4)  # phases; DISTIL is played before ANSWER
Event = dict[str, Any]


class RecallTasks(TaskList):
    """Tasks of multi-session recall with a memory policy, as a `TaskSet`.

    Args:
        tasks: Sessions and questions, all with as many sessions.
        size: Store and wording; its other fields describe how the tasks were drawn.
        memory: "agents", "none", "all", "last:K", "bm25:K", or a dict with "write", "read" and "distil".

    Raises:
        ValueError: A task without sessions or with an answer that is no choice, tasks of different lengths, or an
            unknown size or memory.
        ImportError: BM25 without its library.
    """

    def __init__(
        self,
        tasks: Iterable[RecallTask],
        *,
        size: str | Mapping[str, Any] | RecallSize = "small",
        memory: str | Mapping[str, Any] | Memory = "agents",
    ) -> None:
        self.size, self.memory = RecallSize.of(size), Memory.of(memory)
        self.wording: Wording = Terse() if self.size.terse else Sentences()
        made = [self._checked(task) for task in tasks]
        super().__init__("recall", made)
        lengths = {len(task.sessions) for task in made}
        if len(lengths) > 1:
            raise ValueError(f"recall: tasks with {sorted(lengths)} sessions, wanted one number")
        writing = max(lengths, default=0) if self.memory.write == "agents" else 0
        self.rounds = writing + (self.memory.read == "agents") + (self.memory.distil == "agents") + 1

    @classmethod
    def load(cls, data: Any, split: str, *, size: Any = "small", memory: Any = "agents") -> RecallTasks:
        """Draw the tasks of a split.

        Args:
            data: "embedded": the tasks are drawn by `size`; or a `RecallTasks` with sessions of your own.
            split: "train" or "test".
            size: "tiny", "small", "medium", "large", or a dict with fields of `RecallSize`: sessions, facts, distance,
                keys, values, capacity, results, chatter, terse.
            memory: Who writes and reads the store: "agents", a fixed policy ("none", "all", "last:K", "bm25:K"), or a
                dict with "write", "read" and "distil".

        Raises:
            ValueError: Other data, or an unknown split, size or memory.
        """
        if data != "embedded":
            raise ValueError(f"recall: found data {data!r}; the tasks are drawn: leave it out, or give a RecallTasks")
        chosen = RecallSize.of(size)
        return cls(draw(chosen, split), size=chosen, memory=memory)

    def _checked(self, task: RecallTask) -> RecallTask:
        """Return a task with its prompt."""
        if not task.sessions or task.answer not in task.choices:
            raise ValueError(f"recall: task {task.id!r} needs sessions, and an answer among its choices")
        if not task.chatter:
            task = replace(task, chatter=((),) * len(task.sessions))
        if task.prompt:
            return task
        told = [entry.text for number in range(len(task.sessions)) for entry in self.wording.lines(task, number)]
        return replace(task, prompt="\n".join([*told, self.wording.question(task)]))

    @property
    def settings(self) -> Mapping[str, Any]:
        """Size and memory."""
        memory = asdict(self.memory)
        if self.memory.distil == "none":
            del memory["distil"]  # as in records that are older than it
        return {"size": asdict(self.size), "memory": memory}

    def begin(self, task: Task, roster: Roster, generator: np.random.Generator) -> RecallSession:
        """Start a game with an empty store; nothing in it is random."""
        if not isinstance(task, RecallTask):
            raise TypeError(f"{self.name}: found a {type(task).__name__}, wanted a RecallTask")
        return RecallSession(self, task, roster, Store(self.size.capacity))

    def vote(self, outcomes: Sequence[Outcome | None]) -> object | None:
        """Return the choice that was answered."""
        last = last_outcome(outcomes)
        return None if last is None else last.detail.get("extracted")

    def oracle(self, task: RecallTask, agent: str, observation: Any) -> str:
        """Return the best action given what an agent is told; it knows the task but answers from the memory alone."""
        texts = [m["content"] for m in observation.messages if m.get("name") == ENVIRONMENT]
        return self.wording.play(texts[-1], task)


@dataclass
class RecallSession:
    """One game; plain data beside the shared tasks.

    Attributes:
        tasks: Tasks shared by all games.
        task: The task being played.
        roster: Agents of the team.
        store: Memories of the game.
        told: Sessions that were told.
        phase: Phase of the running round.
        shown: Entries that were read.
        note: Note about them, where an agent distils.
    """

    tasks: RecallTasks
    task: RecallTask
    roster: Roster
    store: Store
    told: int = 0
    phase: int = WRITE
    shown: tuple[Entry, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        if self.tasks.memory.write != "agents":
            sessions = range(len(self.task.sessions))
            lines = [entry for number in sessions for entry in self.tasks.wording.lines(self.task, number)]
            self.store.entries = self.tasks.memory.kept(lines)
            self.told = len(sessions)
            self._ask()

    @property
    def opening(self) -> Mapping[str, str]:
        """Nothing: all that agents are told stands in the rounds."""
        return {}

    @property
    def start(self) -> Outcome:
        """The first round."""
        return self._next(())

    def advance(self, turns: Sequence[Turn], *, round: int, last_round: bool) -> Outcome:
        """Write the store, search it, take the note, or judge the answer."""
        if self.phase == ANSWER:
            return self._judged(turns)
        if self.phase == QUERY:
            events = self._query(turns)
            self.phase = self._after_reading
            return self._next(events)
        if self.phase == DISTIL:
            events = self._distil(turns)
            self.phase = ANSWER
            return self._next(events)
        events = [event for turn in turns for event in self._write(turn)]
        self.told += 1
        if self.told == len(self.task.sessions):
            self._ask()
        return self._next(events)

    def _ask(self) -> None:
        """Enter the phase after the last session."""
        memory, wording = self.tasks.memory, self.tasks.wording
        self.phase = QUERY if memory.read == "agents" else self._after_reading
        if self.phase != QUERY:
            self.shown = tuple(memory.read_by_rule(self.store.entries, wording.question(self.task)))

    @property
    def _after_reading(self) -> int:
        return DISTIL if self.tasks.memory.distil == "agents" else ANSWER

    def _next(self, events: Sequence[Event]) -> Outcome:
        """Return the outcome of a round after which the game goes on: the text of the next round for all agents."""
        wording = self.tasks.wording
        if self.phase == WRITE:
            text = wording.session(self.task, self.told, self.store)
        elif self.phase == QUERY:
            text = wording.question(self.task)
        elif self.phase == DISTIL:
            text = wording.to_distil(self.task, self.shown)
        elif self.tasks.memory.distil == "agents":
            text = wording.distilled(self.task, self.note)
        else:
            text = wording.found(self.task, self.shown)
        return Outcome(
            reward=0.0,
            terminated=False,
            success=False,
            invalid=any(event["status"] == "unreadable" for event in events),
            detail={"phase": self.phase},
            # Texts of a round are private, so that they do not stay in view as the problem that opened the game does.
            private=dict.fromkeys(self.roster.agents, text),
            events=tuple(events),
        )

    def _write(self, turn: Turn) -> list[Event]:
        events: list[Event] = []
        for command in self.tasks.wording.commands(turn.action, self.task.sessions[self.told]):
            event: Event = {"kind": "write", "agent": turn.agent, "round": turn.round}
            if command is None:
                events.append(event | {"operation": "", "key": "", "status": "unreadable"})
            else:
                status = self.store.apply(command)
                events.append(event | {"operation": command.operation, "key": command.key, "status": status})
        return events

    def _query(self, turns: Sequence[Turn]) -> list[Event]:
        """Search for the last query of the round."""
        if not turns:
            return []
        query = self.tasks.wording.query(turns[-1].action, self.task)
        self.shown = tuple(self.store.search(query, self.tasks.size.results))
        event = {"kind": "query", "agent": turns[-1].agent, "round": turns[-1].round}
        return [event | {"found": len(self.shown), "status": "ok" if words(query) else "unreadable"}]

    def _distil(self, turns: Sequence[Turn]) -> list[Event]:
        """Take the last note of the round."""
        if not turns:
            return []
        self.note = self.tasks.wording.note(turns[-1].action, self.task)
        event = {"kind": "distil", "agent": turns[-1].agent, "round": turns[-1].round}
        return [event | {"status": "ok" if self.note else "unreadable"}]

    def _judged(self, turns: Sequence[Turn]) -> Outcome:
        said = [turn.action for turn in turns if turn.agent in self.roster.answering]
        answer = self.tasks.wording.answer(said[-1], self.task) if said else None
        right = answer == self.task.answer
        distilled = self.tasks.wording.answer(self.note, self.task) == self.task.answer
        return Outcome(
            reward=float(right),
            terminated=True,
            success=right,
            invalid=answer is None,
            verdict="There is no single choice in the answer." if answer is None else f"The answer is {answer}.",
            detail={
                "stored": self._tells(self.store.entries),
                "found": self._tells(self.shown),
                **({"distilled": distilled} if self.tasks.memory.distil == "agents" else {}),
                **({} if answer is None else {"extracted": answer}),
            },
        )

    def _tells(self, entries: Sequence[Entry]) -> bool:
        """Return True if the last entry about the asked key has the right value."""
        return value_told([entry.text for entry in entries], self.task) == self.task.answer
