"""Memory policies: which part of writing, reading and distilling the agents do; fixed rules do the rest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from marft_common.installation import pip_install
from marft_envs.tasks.recall.store import Entry, words

_WRITE, _READ, _DISTIL = r"agents|none|all|last:[1-9]\d*", r"agents|all|bm25:[1-9]\d*", "none|agents"
NAMED = (
    "agents, none, all, last:K, bm25:K, or a dict with write (agents, none, all, last:K), read (agents, all, bm25:K) "
    "and distil (none, agents)"
)


@dataclass(frozen=True)
class Memory:
    """How a game writes and reads its store, and whether an agent distils what was read.

    Attributes:
        write: "agents", "none", "all", or "last:K": the last K lines of the sessions.
        read: "agents", "all", or "bm25:K": the K entries that BM25 ranks first for the question.
        distil: "none", or "agents": an agent writes a note of the entries, and the answering agent sees it alone.
    """

    write: str = "agents"
    read: str = "agents"
    distil: str = "none"

    @classmethod
    def of(cls, spec: str | Mapping[str, Any] | Memory) -> Memory:
        """Return a policy by its name, or from its parts.

        Raises:
            ValueError: It is none.
            ImportError: BM25 without its library.
        """
        if isinstance(spec, Memory):
            return spec
        parts = {"write": spec, "read": "all"} if isinstance(spec, str) else spec
        if spec == "agents":
            parts = {}
        elif isinstance(spec, str) and spec.startswith("bm25:"):
            parts = {"write": "all", "read": spec}
        if not isinstance(parts, Mapping) or not parts.keys() <= {"write", "read", "distil"}:
            raise ValueError(f"memory: found {spec!r}, wanted {NAMED}")
        made = cls(**parts)
        for part, pattern in ((made.write, _WRITE), (made.read, _READ), (made.distil, _DISTIL)):
            if not isinstance(part, str) or not re.fullmatch(pattern, part, re.ASCII):
                raise ValueError(f"memory: found {spec!r}, wanted {NAMED} with K >= 1")
        if made.read.startswith("bm25:"):
            bm25()
        return made

    def kept(self, lines: Sequence[Entry]) -> list[Entry]:
        """Return the entries that a fixed way of writing keeps of all lines, oldest first."""
        if self.write == "none":
            return []
        return list(lines if self.write == "all" else lines[-_number(self.write) :])

    def read_by_rule(self, entries: Sequence[Entry], question: str) -> list[Entry]:
        """Return the entries that a fixed way of reading shows, oldest first; of equal scores the newest."""
        if self.read == "all" or not entries:
            return list(entries)
        library = bm25()
        index = library.BM25()
        texts = [list(words(entry.text)) for entry in entries]
        index.index(texts, show_progress=False)
        known = {word for text in texts for word in text}
        asked = [word for word in words(question) if word in known]
        scores = index.get_scores(asked).tolist() if asked else [0.0] * len(entries)
        ranked = sorted(range(len(entries)), key=lambda place: (scores[place], place), reverse=True)
        return [entries[place] for place in sorted(ranked[: _number(self.read)])]


def _number(policy: str) -> int:
    return int(policy.partition(":")[2])


def bm25() -> Any:
    """Import the library bm25s.

    Raises:
        ImportError: It is missing; the message names the extra.
    """
    try:
        import bm25s
    except ImportError as error:
        raise ImportError(f"memory bm25:K needs the library bm25s: {pip_install('memory')}") from error
    return bm25s
