"""Turn file: supervised examples as JSON Lines, one turn of one agent a line, with a manifest of their origin.

    {"agent": "reader_0", "task": "lookup-train-0001", "episode": 0, "split": "train", "fixed_messages": 2,
     "prompt": [{"role": "system", "content": ...}, ...], "completion": [{"role": "assistant", "content": ...}],
     "ended": true}

`prompt` and `completion` are the conversational prompt-completion form that other trainers read too. The manifest
stands beside it, `FILE.manifest.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from baselines.experiment.data_checksums import sha256_of
from baselines.training_data.recordings import RecordedTurn
from marft_agents.runs.run_folder import replacing, write_json

SCHEMA = "marft.turns/1"
TRAIN, HELD_OUT = "train", "held_out"
WANTED = 'an object with "agent", "prompt" and "completion", as `marft data from-runs` writes'


class TurnFileError(ValueError):
    """A turn file that cannot be used; names file and line, what was found and what was wanted."""


class Example(NamedTuple):
    """A turn to imitate.

    Attributes:
        turn: Agent, prompt and action.
        task: Id of the task.
        episode: Number of its episode in the file.
        split: "train" or "held_out".
    """

    turn: RecordedTurn
    task: str
    episode: int
    split: str

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        turn = self.turn
        return {
            "agent": turn.agent,
            "task": self.task,
            "episode": self.episode,
            "split": self.split,
            "fixed_messages": turn.fixed_messages,
            "prompt": [dict(message) for message in turn.messages],
            "completion": [{"role": "assistant", "content": turn.action}],
            "ended": turn.ended,
        }


def manifest_of(path: Path) -> Path:
    """Return the path of a turn file's manifest."""
    return path.with_name(f"{path.name}.manifest.json")


def write_turns(path: Path, examples: Sequence[Example], manifest: Mapping[str, Any], *, own: bool = False) -> None:
    """Write a turn file, then its manifest with the file's hash; each appears whole or not at all.

    Args:
        path: File to write.
        examples: Turns to imitate, in order.
        manifest: Origins, selection, split and counts.
        own: True if the environment that it names is of this user's own runs, see `write_json`.
    """
    with replacing(path) as stream:
        stream.writelines(json.dumps(example.to_dict(), ensure_ascii=False) + "\n" for example in examples)
    head = {"schema": SCHEMA, "file": path.name, "sha256": sha256_of(path)}
    write_json(manifest_of(path), {**head, **manifest}, own=own)


def read_turns(path: Path) -> tuple[list[Example], dict[str, Any]]:
    """Read a turn file and its manifest; the manifest is empty where there is none.

    Raises:
        TurnFileError: A line is no example, or the file is not the one that its manifest describes.
    """
    try:
        lines = path.read_bytes().decode("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise TurnFileError(f"{path} cannot be read: {error}") from error
    manifest: dict[str, Any] = {}
    if manifest_of(path).is_file():
        manifest = _read_manifest(path)
    examples = [_example(f"{path}:{number}", line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not examples:
        raise TurnFileError(f"{path} has no lines: wanted {WANTED}")
    return examples, manifest


def _read_manifest(path: Path) -> dict[str, Any]:
    file = manifest_of(path)
    try:
        manifest: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        wanted = manifest["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TurnFileError(f"{file} is no manifest: {type(error).__name__}: {error}") from error
    if manifest.get("schema") != SCHEMA:
        raise TurnFileError(f"{file}: found schema {manifest.get('schema')!r}, wanted {SCHEMA!r}")
    if (found := sha256_of(path)) != wanted:
        raise TurnFileError(
            f"{path} is not the file of its manifest: found sha256 {found[:12]}, wanted {wanted[:12]}; make it again "
            f"with `marft data from-runs`, or remove {file.name} to use a file of your own"
        )
    return manifest


def _example(where: str, line: str) -> Example:
    try:
        record = json.loads(line)
        completion = record["completion"]
        [said] = [completion] if isinstance(completion, str) else [one["content"] for one in completion]
        messages = record["prompt"]
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        plain = tuple({key: one[key] for key in ("role", "content", "name") if key in one} for one in messages)
        texts = [record["agent"], said, *(value for one in plain for value in one.values())]
        if not plain or not all(isinstance(text, str) for text in texts) or any(len(one) < 2 for one in plain):
            raise ValueError("roles, contents and agents must be texts")
        ended = bool(record.get("ended", True))
        if not said and not ended:
            raise ValueError("a completion that is empty and did not end has no tokens")
        turn = RecordedTurn(record["agent"], plain, record.get("fixed_messages"), said, ended)
        split = record.get("split", TRAIN)
        return Example(turn, str(record.get("task", where)), int(record.get("episode", 0)), str(split))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise TurnFileError(f"{where}: {type(error).__name__}: {error}; wanted {WANTED}") from error
