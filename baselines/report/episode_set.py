"""Episodes of one `episodes.jsonl` in the compact form that the page shows, in compressed blocks of a hundred.

The index holds what lists and filters need of every episode; a block holds the whole episodes and is decompressed when
one of them is opened. The file may still grow: `refresh` reads what was appended.

A record keeps an observation as text. It is parsed back into messages with their authors, so that the page can colour
what an agent saw by who wrote it. Messages that are actions of the same episode are stored as references.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from baselines.experiment.record_shapes import EPISODE, mismatch

BLOCK = 100  # episodes of a block
PREVIEW = 110  # characters of an episode's line in the list
MOST_TOKENS = 4096  # tokens of an action whose log-probs are shown
HEADER = re.compile(r"\[([^\[\]\n]{1,64})\]\n")
ROLES = ("system", "user", "assistant", "environment")

Cohorts = Mapping[str, Sequence[Any]]


class EpisodeError(ValueError):
    """A line that is no record of an episode; names the file, the line, and what was found."""


@dataclass(frozen=True)
class TextLimit:
    """Longest text that a report keeps; a longer one loses its middle, and says so.

    Attributes:
        characters: Characters of each text; None keeps all.
    """

    characters: int | None = None

    def cut(self, text: str) -> str:
        """Return a text of at most the limit, with a note in place of the part left out."""
        if self.characters is None or len(text) <= self.characters:
            return text
        head, tail = self.characters * 3 // 4, self.characters // 4
        removed = len(text) - head - tail
        return f"{text[:head]}\n[... {removed:,} characters left out of this report ...]\n{text[-tail:]}"


@dataclass
class EpisodeSet:
    """The episodes of one file.

    Attributes:
        label: Name of the set on the page.
        file: Path of the `episodes.jsonl`.
        cohorts: Value of each scenario by name of the cohort; episodes follow the scenarios, once per seed.
        limit: Longest text that is kept.
        keep: Most episodes that are kept, spread evenly over the file; None keeps all. A file that grows needs None.
    """

    label: str
    file: Path
    cohorts: Cohorts = field(default_factory=dict)
    limit: TextLimit = field(default_factory=TextLimit)
    keep: int | None = None

    def __post_init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self.blocks: list[bytes] = []  # compressed JSON of `BLOCK` episodes each; the last may hold fewer
        self.rows: list[dict[str, Any]] = []  # index of all episodes
        self.agents: dict[str, None] = {}
        self.edges: Counter[tuple[str, str, bool]] = Counter()  # (author, reader, delayed) -> episodes
        self.total = 0  # episodes in the file
        self._open: list[dict[str, Any]] = []  # episodes of the last block
        self._offset = 0

    def refresh(self) -> bool:
        """Read the lines that were appended since the last call; return True if the set changed."""
        size = self.file.stat().st_size if self.file.is_file() else 0
        if size < self._offset:  # a resumed run dropped lines
            self._forget()
        before = self.total, self._offset
        chosen = None if self.keep is None else spread(sum(1 for _ in self._lines(0)), self.keep)
        for line, end in self._lines(self._offset):
            number, self.total, self._offset = self.total, self.total + 1, end
            if chosen is None or number in chosen:
                self._add(number, line)
        if (self.total, self._offset) != before:
            self._close_block()
        return (self.total, self._offset) != before

    def _lines(self, start: int) -> Iterator[tuple[bytes, int]]:
        """Yield each whole line after an offset, with the offset of its end."""
        if not self.file.is_file():
            return
        with self.file.open("rb") as stream:
            stream.seek(start)
            for line in stream:
                start += len(line)
                if not line.endswith(b"\n"):
                    return  # still being written
                yield line, start

    def _add(self, number: int, line: bytes) -> None:
        try:
            record = json.loads(line)
            wrong = mismatch(record, EPISODE)
            episode = compact(record, self.limit) if wrong is None else {}
        except (ValueError, RecursionError) as error:
            raise EpisodeError(f"{self.file}:{number + 1}: this is no record of an episode: {error}") from error
        if wrong is not None:
            raise EpisodeError(f"{self.file}:{number + 1}: this is no record of an episode: {wrong}")
        row = row_of(episode)
        row["cohorts"] = {name: values[number % len(values)] for name, values in self.cohorts.items() if values}
        if len(self.rows) % BLOCK == 0:
            self._open = []
        self.rows.append(row)
        self._open.append(episode)
        if len(self._open) == BLOCK:
            self._close_block()
        self.agents |= dict.fromkeys(turn["agent"] for turn in episode["turns"])
        self.edges.update(edges_of(episode["turns"]))

    def _close_block(self) -> None:
        """Compress the last block, which may be unfinished."""
        number = (len(self.rows) - 1) // BLOCK
        if self._open:
            self.blocks[number:] = [packed(self._open)]

    def to_dict(self) -> dict[str, Any]:
        """Return the index as JSON: a column per field, the graph of who saw whom, and the number of blocks."""
        return {
            "label": self.label,
            "total": self.total,
            "columns": {name: [row[name] for row in self.rows] for name in ROW},
            "cohorts": {name: [row["cohorts"].get(name) for row in self.rows] for name in self.cohorts},
            "blocks": len(self.blocks),
            "block_size": BLOCK,
            "agents": list(self.agents),
            "edges": [[*edge, count / max(1, len(self.rows))] for edge, count in self.edges.items()],
        }


def spread(total: int, keep: int) -> frozenset[int]:
    """Return at most `keep` of the numbers 0 to `total` - 1, spread evenly."""
    count = min(total, keep)
    return frozenset(i * total // count for i in range(count))


def packed(value: Any) -> bytes:
    """Return JSON, compressed with raw deflate as the browser's DecompressionStream reads it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    compressor = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(text.encode("utf-8", "replace")) + compressor.flush()


# ------------------------------------------------------------------ one episode


def compact(record: Mapping[str, Any], limit: TextLimit) -> dict[str, Any]:
    """Return the form of an episode that the page shows.

    Args:
        record: A line of `episodes.jsonl`.
        limit: Longest text that is kept.
    """
    game = record.get("game") or {}
    played = game.get("turns") or [{}] * len(record["turns"])
    turns = [_turn(turn, seen, limit) for turn, seen in zip(record["turns"], played, strict=False)]
    place: dict[tuple[int, str], int] = {}  # of the turns so far: none sees a later one
    agents = [turn["agent"] for turn in turns]
    for number, (turn, seen) in enumerate(zip(turns, played, strict=False)):
        visible = [place.get((round, agent)) for round, agent in seen.get("visible", [])]
        turn["visible"] = [other for other in visible if other is not None]
        if seen.get("reads") is not None:  # of a program: an agent may have several turns in one layer
            earlier = {int(other): evidence for other, evidence in seen["reads"] if 0 <= other < number}
            turn["visible"] = [other for other in earlier if agents[other] != turn["agent"]]
            turn["evidence"] = [earlier[other] for other in turn["visible"]]
            turn["bound"] = min(number, int(seen.get("delivered_before") or 0))
        if "observation" in seen:
            texts = [one["text"] for one in record["turns"][:number]]
            turn["saw"] = messages_of(seen["observation"], [*zip(agents, texts, strict=False)], agents)
        place[turn["round"], turn["agent"]] = number
    _layers(turns)
    _share_messages(turns, limit)
    return {
        "task": game.get("task_id"),
        "update": record["update"],
        "group": record["group"],
        "branch": record.get("branch"),
        "seed": record["seed"],
        "return": number_of(record["return"]),
        "terminated": record["terminated"],
        "failure": None if record["failure"] is None else limit.cut(record["failure"]),
        "infos": {name: number_of(value) for name, value in record["infos"].items()},
        "terms": {name: number_of(value) for name, value in (game.get("terms") or {}).items()},
        "turns": turns,
        "outcomes": [_outcome(outcome, limit) for outcome in game.get("outcomes") or []],
    }


def _turn(turn: Mapping[str, Any], seen: Mapping[str, Any], limit: TextLimit) -> dict[str, Any]:
    kept = {name: turn.get(name) for name in ("agent", "round", "tokens", "prompt_tokens", "stopped")}
    kept |= {"text": limit.cut(turn["text"]), "reward": number_of(turn["reward"])}
    kept |= {"logprob": number_of(turn.get("logprob")), "fault": seen.get("fault", "")}
    kept["shortened"] = seen.get("shortened") or turn.get("shortened") or []
    if "sampled" in turn:
        kept["sampled"] = {
            name: values[:MOST_TOKENS] if isinstance(values, list) else values
            for name, values in turn["sampled"].items()
        }
    return kept


def _outcome(outcome: Mapping[str, Any] | None, limit: TextLimit) -> dict[str, Any] | None:
    if outcome is None:
        return None
    return {name: _cut_all(value, limit) for name, value in outcome.items()}


def _cut_all(value: Any, limit: TextLimit) -> Any:
    """Return a value of JSON with every text cut to the limit, and without NaN."""
    if isinstance(value, str):
        return limit.cut(value)
    if isinstance(value, Mapping):
        return {name: _cut_all(one, limit) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_cut_all(one, limit) for one in value]
    return number_of(value) if isinstance(value, float) else value


def number_of(value: Any) -> Any:
    """Return a number for JSON: None for NaN and infinities."""
    return value if not isinstance(value, float) or abs(value) < float("inf") else None


def _layers(turns: list[dict[str, Any]]) -> None:
    """Add "layer" to each turn: one more than the latest turn of its round that it sees, 0 without any."""
    for turn in turns:
        seen = [turns[other] for other in turn["visible"]] if turn.get("visible") else []
        turn["layer"] = max((one["layer"] + 1 for one in seen if one["round"] == turn["round"]), default=0)


def messages_of(
    observation: str, actions: Sequence[tuple[str, str]], agents: Collection[str] = ()
) -> list[dict[str, Any]]:
    r"""Parse an observation back into its messages.

    Args:
        observation: Messages as "[author]\ntext", joined by an empty line.
        actions: Agent and text of each earlier turn of the episode. A message that is one of them whole is taken as
            such, whatever looks like a header inside it.
        agents: Further authors, whose messages are examples in the prompt.

    Returns:
        For each message "by" and either "turn", the index of the action, or "text".

    Examples:
        >>> said = [("b_0", "2\n\n[b_0]\n3"), ("a_0", "2\n\n[b_0]\n3")]
        >>> messages_of("[system]\nBe brief.\n\n[a_0]\n2\n\n[b_0]\n3", said)
        [{'by': 'system', 'text': 'Be brief.'}, {'by': 'a_0', 'turn': 1}]
    """
    names = {agent for agent, _ in actions} | set(ROLES) | set(agents)
    found: list[dict[str, Any]] = []
    start, used = 0, -1
    while (header := HEADER.match(observation, start)) is not None:
        name, body = header[1], header.end()
        turn = _action_at(observation, body, name, actions, used)
        if turn is not None:
            used = turn
            found.append({"by": name, "turn": turn})
            end = body + len(actions[turn][1])
        else:
            end = _next_header(observation, body, names)
            found.append({"by": name, "text": observation[body:end]})
        if not observation.startswith("\n\n", end):
            return found
        start = end + 2
    return [*found, {"by": "", "text": observation[start:]}]


def _action_at(text: str, start: int, name: str, actions: Sequence[tuple[str, str]], used: int) -> int | None:
    """Return the first action after `used` by an agent that stands whole at a place of an observation, or None."""
    for number, (agent, action) in enumerate(actions):
        end = start + len(action)
        whole = end == len(text) or (text.startswith("\n\n", end) and HEADER.match(text, end + 2) is not None)
        if agent == name and number > used and text.startswith(action, start) and whole:
            return number
    return None


def _next_header(text: str, start: int, names: set[str]) -> int:
    """Return the end of the message that starts here: before the next header of a known author, or the text's end."""
    for header in HEADER.finditer(text, start):
        if header[1] in names and text.startswith("\n\n", header.start() - 2) and header.start() - 2 >= start:
            return header.start() - 2
    return len(text)


def _share_messages(turns: Sequence[dict[str, Any]], limit: TextLimit) -> None:
    """Store only what is new: "saw" becomes the messages after those of the agent's turn "saw_after" (None: all)."""
    whole: dict[str, tuple[int, list[dict[str, Any]]]] = {}
    for number, turn in enumerate(turns):
        if "saw" not in turn:
            continue
        messages = [one | {"text": limit.cut(one["text"])} if "text" in one else one for one in turn["saw"]]
        before, known = whole.get(turn["agent"], (None, []))
        grown = before is not None and messages[: len(known)] == known
        turn["saw_after"] = before if grown else None
        turn["saw"] = messages[len(known) :] if grown else messages
        whole[turn["agent"]] = number, messages


# ------------------------------------------------------------------ index

ROW = ("task", "update", "seed", "solved", "return", "failed", "violated", "shortened", "invalid", "tokens", "preview")


def row_of(episode: Mapping[str, Any]) -> dict[str, Any]:
    """Return what lists and filters need of an episode; flags are 0 or 1, and None where nothing recorded it."""
    infos, turns, failed = episode["infos"], episode["turns"], episode["failure"] is not None
    success = infos.get("success")
    if success is None:
        success = (episode["return"] or 0) > 0
    return {
        "task": episode["task"],
        "update": episode["update"],
        "seed": episode["seed"],
        "solved": None if failed else int(success > 0),
        "return": episode["return"],
        "failed": int(failed),
        "violated": int(bool(infos.get("violation"))),
        "shortened": int(any(turn["shortened"] for turn in turns)),
        "invalid": int(bool(infos.get("invalid"))),
        "tokens": sum(turn["tokens"] or 0 for turn in turns),
        "preview": " ".join(_preview(turns).split())[:PREVIEW],
    }


def _preview(turns: Sequence[Mapping[str, Any]]) -> str:
    """Return the problem if what the first agent saw is recorded, else the last action."""
    if not turns:
        return ""
    told = [one["text"] for one in turns[0].get("saw", []) if one["by"] in ("environment", "user") and "text" in one]
    return str(told[-1] if told else turns[-1]["text"])[: 4 * PREVIEW]


def edges_of(turns: Sequence[Mapping[str, Any]]) -> set[tuple[str, str, bool]]:
    """Return the edges of an episode as (author, reader, delayed): delayed if only from the next round on."""
    edges = set()
    for turn in turns:
        for other in turn["visible"]:
            author = turns[other]
            delayed = author["round"] != turn["round"] and "bound" not in turn  # the layers of a program are no rounds
            edges.add((author["agent"], turn["agent"], delayed))
    direct = {(author, reader) for author, reader, delayed in edges if not delayed}
    return {edge for edge in edges if not edge[2] or edge[:2] not in direct}
