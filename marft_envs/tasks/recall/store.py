"""The store of memories: a bounded list of entries, which commands change and queries search."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

OPERATIONS = ("add", "update", "delete", "keep")
_WORD = re.compile(r"\w+")


class Command(NamedTuple):
    """One operation on the store; `keep` does nothing."""

    operation: str
    key: str = ""
    value: str = ""


class Entry(NamedTuple):
    """One memory.

    Attributes:
        key: Name of a fact; empty for a line of a session, kept as it was told.
        value: Value of the fact, or the line.
    """

    key: str
    value: str

    @property
    def text(self) -> str:
        """The entry as it is shown and searched."""
        return f"{self.key}: {self.value}" if self.key else self.value


@dataclass
class Store:
    """Memories of a game; plain data.

    Attributes:
        capacity: Most entries that commands can make.
        entries: The entries, oldest first.
    """

    capacity: int
    entries: list[Entry] = field(default_factory=list)

    def apply(self, command: Command) -> str:
        """Do a command and return its status: "ok", "full" (nothing added) or "unknown" (no entry of that key).

        Keys are compared without regard to case. `update` replaces the oldest entry of a key.
        """
        places = [place for place, entry in enumerate(self.entries) if same(entry.key, command.key)]
        if command.operation == "add":
            if len(self.entries) >= self.capacity:
                return "full"
            self.entries.append(Entry(command.key, command.value))
        elif command.operation == "update":
            if not places:
                return "unknown"
            self.entries[places[0]] = Entry(command.key, command.value)
        elif command.operation == "delete":
            if not places:
                return "unknown"
            self.entries = [entry for place, entry in enumerate(self.entries) if place not in places]
        return "ok"

    def holds(self, key: str) -> bool:
        """Return True if there is an entry of a key."""
        return any(same(entry.key, key) for entry in self.entries)

    def search(self, query: str, most: int) -> list[Entry]:
        """Return the entries that share the most words with a query, at least one; of many the newest, oldest first."""
        wanted = set(words(query))
        shared = [len(wanted & set(words(entry.text))) for entry in self.entries]
        best = max(shared, default=0)
        return [entry for entry, count in zip(self.entries, shared, strict=True) if count == best > 0][-most:]


def same(one: str, other: str) -> bool:
    """Return True if two keys are the same but for case and blanks."""
    return bool(one) and words(one) == words(other)


def words(text: str) -> Sequence[str]:
    """Return the words of a text in lower case.

    Examples:
        >>> words("Where does Ann live?")
        ['where', 'does', 'ann', 'live']
    """
    return _WORD.findall(text.casefold())
