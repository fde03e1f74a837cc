"""Wording of the task: texts that agents are shown, and how their actions are read.

`Sentences` is English. `Terse` has the words of the probe games, and reads an action by its first character, as they
do: any character is an operation, a key or a value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from marft_envs.tasks.recall.facts import Fact, RecallTask
from marft_envs.tasks.recall.store import OPERATIONS, Command, Entry, Store, words

_TOLD = {
    "city": ("{name} lives in {value}.", "{name} has moved to {value}.", "In which city does {name} live?"),
    "pet": ("{name} keeps a {value}.", "{name} now keeps a {value} instead.", "Which pet does {name} keep?"),
    "drink": ("{name} likes {value} best.", "{name} now prefers {value}.", "Which drink does {name} like best?"),
    "sport": ("{name} is fond of {value}.", "{name} has changed to {value}.", "Which sport is {name} fond of?"),
}
_COMMAND = re.compile(r"\s*(add|update|delete|keep)\b[ \t]*(?:([^:\n]+?)[ \t]*(?::[ \t]*(.+?))?)?\s*", re.IGNORECASE)
_SESSION = re.compile(r"Session (\d+) of ")
_NOTE = re.compile(r"^\s*note\b:?(.*)", re.IGNORECASE | re.DOTALL)
_NOTED = re.compile(r"Note: (.*)\n\nQuestion:", re.DOTALL)
_TO_DISTIL = "Write one sentence, as note: TEXT. The question is then answered from the note alone."
_QUERY = re.compile(r"^\s*query\b:?", re.IGNORECASE)


class Wording(Protocol):
    """Texts of the rounds, and the meaning of actions."""

    def lines(self, task: RecallTask, session: int) -> list[Entry]:
        """Return the lines of a session, each as an entry that a fixed policy may keep."""

    def session(self, task: RecallTask, session: int, store: Store) -> str:
        """Return the text of a session's round."""

    def question(self, task: RecallTask) -> str:
        """Return the question."""

    def found(self, task: RecallTask, entries: Sequence[Entry]) -> str:
        """Return the text of the last round: the question, and the entries that were read."""

    def to_distil(self, task: RecallTask, entries: Sequence[Entry]) -> str:
        """Return the text for the agent that distils: the question, and the entries that were read."""

    def distilled(self, task: RecallTask, note: str) -> str:
        """Return the text of the last round after a distillation: the question, and the note alone."""

    def commands(self, action: str, facts: Sequence[Fact]) -> list[Command | None]:
        """Read what to write; None for each line that cannot be read."""

    def query(self, action: str, task: RecallTask) -> str:
        """Read what to look up."""

    def note(self, action: str, task: RecallTask) -> str:
        """Read a note; empty if there is none."""

    def answer(self, action: str, task: RecallTask) -> str | None:
        """Read which of the choices is answered; None if none, or more than one."""

    def play(self, text: str, task: RecallTask) -> str:
        """Return the best action of an agent that is told the text of a round."""


class Sentences:
    """English sentences."""

    def lines(self, task: RecallTask, session: int) -> list[Entry]:
        """Return the facts as sentences, then the chatter."""
        told = []
        for fact in task.sessions[session]:
            name, _, what = fact.key.rpartition(" ")
            first, later, _ = _TOLD.get(what, ("{key}: {value}.",) * 3)
            told.append((later if fact.changed else first).format(name=name, value=fact.value, key=fact.key))
        return [Entry("", line) for line in [*told, *task.chatter[session]]]

    def session(self, task: RecallTask, session: int, store: Store) -> str:
        """Return the lines of the session and the store."""
        told = "\n".join(entry.text for entry in self.lines(task, session))
        held = "\n".join(f"- {entry.text}" for entry in store.entries) or "(empty)"
        return (
            f"Session {session + 1} of {len(task.sessions)}.\n{told}\n\n"
            f"Memory, {len(store.entries)} of {store.capacity} entries:\n{held}"
        )

    def question(self, task: RecallTask) -> str:
        """Return the question with its choices."""
        name, _, what = task.key.rpartition(" ")
        asked = _TOLD[what][2].format(name=name) if what in _TOLD else f"What is the latest value of {task.key}?"
        return f"Question: {asked} Choices: {', '.join(task.choices)}."

    def found(self, task: RecallTask, entries: Sequence[Entry]) -> str:
        """Return the question below the entries."""
        held = "\n".join(f"- {entry.text}" for entry in entries) or "(nothing found)"
        return f"Memory, oldest first:\n{held}\n\n{self.question(task)}"

    def to_distil(self, task: RecallTask, entries: Sequence[Entry]) -> str:
        """Return the text of `found` and what to do: the profiles of the smaller teams do not tell of notes."""
        return f"{self.found(task, entries)}\n\n{_TO_DISTIL}"

    def distilled(self, task: RecallTask, note: str) -> str:
        """Return the question below the note."""
        return f"Note: {note or '(empty)'}\n\n{self.question(task)}"

    def commands(self, action: str, facts: Sequence[Fact]) -> list[Command | None]:
        """Read one command from each line that is not empty."""
        read: list[Command | None] = []
        for line in filter(str.strip, action.splitlines()):
            parts = _COMMAND.fullmatch(line)
            operation, key, value = (part or "" for part in parts.groups()) if parts else ("", "", "")
            operation = operation.lower()
            complete = {"add": key and value, "update": key and value, "delete": key and not value, "keep": True}
            read.append(Command(operation, key, value) if complete.get(operation) else None)
        return read or [None]

    def query(self, action: str, task: RecallTask) -> str:
        """Return the action, without the word "query" at its start."""
        return _QUERY.sub("", action)

    def note(self, action: str, task: RecallTask) -> str:
        """Return the text after the word "note" at the start."""
        found = _NOTE.match(action)
        return found[1].strip() if found else ""

    def answer(self, action: str, task: RecallTask) -> str | None:
        """Return the only choice whose words occur in the action."""
        said = f" {' '.join(words(action))} "
        named = [choice for choice in task.choices if f" {' '.join(words(choice))} " in said]
        return named[0] if len(named) == 1 else None

    def play(self, text: str, task: RecallTask) -> str:
        """Write and update all facts, look up the asked key, tell its value in a note, or answer from what is shown."""
        held = [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")]
        if session := _SESSION.match(text):
            facts = task.sessions[int(session[1]) - 1]
            known = [line.partition(":")[0] for line in held]
            return "\n".join(f"{'update' if fact.key in known else 'add'} {fact.key}: {fact.value}" for fact in facts)
        if text.startswith("Question:"):
            return f"query {task.key}"
        if told := _NOTED.match(text):
            return self.answer(told[1], task) or task.choices[0]
        value = value_told(held, task) or task.choices[0]
        return f"note: {task.key} is {value}" if text.endswith(_TO_DISTIL) else value


class Terse:
    """Words of the probe games; a session tells one fact, and an operation applies to it."""

    def lines(self, task: RecallTask, session: int) -> list[Entry]:
        """Return the facts."""
        return [Entry(fact.key, fact.value) for fact in task.sessions[session]]

    def session(self, task: RecallTask, session: int, store: Store) -> str:
        """Return the fact, and "heard" where the store holds its key, else "?"."""
        fact = task.sessions[session][0]
        return f"topic {fact.key} value {fact.value} {'heard' if store.holds(fact.key) else '?'}"

    def question(self, task: RecallTask) -> str:
        """Return the asked key."""
        return f"topic {task.key} ?"

    def found(self, task: RecallTask, entries: Sequence[Entry]) -> str:
        """Return the question and the entries, or "?" for none."""
        return " ".join([self.question(task), *([f"{entry.key} {entry.value}" for entry in entries] or "?")])

    def to_distil(self, task: RecallTask, entries: Sequence[Entry]) -> str:
        """Return the text of `found`: the note is a digit, as an answer is."""
        return self.found(task, entries)

    def distilled(self, task: RecallTask, note: str) -> str:
        """Return the question and the digit of the note, or "?" for none."""
        return f"{self.question(task)} heard {note or '?'}"

    def commands(self, action: str, facts: Sequence[Fact]) -> list[Command | None]:
        """Read an operation: a is add, b update, c delete, d keep, and so on in a circle."""
        place = _first(action, "a", len(OPERATIONS))
        return [None if place is None else Command(OPERATIONS[place], *facts[0][:2])]

    def query(self, action: str, task: RecallTask) -> str:
        """Read a letter of the keys, which are the first ones of the alphabet."""
        keys = sorted({fact.key for facts in task.sessions for fact in facts})
        place = _first(action, "a", len(keys))
        return "" if place is None else keys[place]

    def note(self, action: str, task: RecallTask) -> str:
        """Read a digit."""
        return self.answer(action, task) or ""

    def answer(self, action: str, task: RecallTask) -> str | None:
        """Read a digit."""
        place = _first(action, "0", len(task.choices))
        return None if place is None else task.choices[place]

    def play(self, text: str, task: RecallTask) -> str:
        """Update a known key, add another; look up the asked key; or tell its value, from the entries or the note."""
        said = text.split()
        if said[2] == "value":
            return "b" if said[-1] == "heard" else "a"
        if said == self.question(task).split():
            return task.key
        if said[3] == "heard":
            return said[4] if said[4] in task.choices else task.choices[0]
        held = [f"{key} {value}" for key, value in zip(said[3::2], said[4::2], strict=False)]
        return value_told(held, task) or task.choices[0]


def value_told(texts: Sequence[str], task: RecallTask) -> str | None:
    """Return the value that the last text about the asked key tells; None if no text does."""
    name, _, what = task.key.rpartition(" ")
    asked = set(words(name if what in _TOLD else task.key))
    told = [set(words(text)) for text in texts]
    named = [choice for text in told if asked <= text for choice in task.choices if set(words(choice)) <= text]
    return named[-1] if named else None


def _first(action: str, first: str, count: int) -> int | None:
    """Return the number in [0, count) that the first character of an action means; None for a blank action."""
    text = action.strip()
    return (ord(text[0]) - ord(first)) % count if text else None
