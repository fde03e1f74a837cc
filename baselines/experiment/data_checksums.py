"""Checksums of the data of a run: a resume trains on the same problems, or is refused with what differs."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marft_agents.runs.folder_lock import RunFolderError
from marft_envs.environment_capabilities import listing_game
from marft_envs.tasks.code import CodeTasks

# A larger set is represented by so many of its tasks, spread evenly: sets may make them when asked.
MOST_TASKS = 100_000


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def task_checksum(env: Any) -> str | None:
    """Return the number of tasks of an environment and the SHA-256 of all they hold, in their order.

    None for an environment without a list of tasks. A field of a task that has its default value does not count, so
    that a version which adds one resumes older runs.
    """
    game = listing_game(env)
    if game is None:
        return None
    digest = hashlib.sha256()
    for place in range(0, len(game.tasks), 1 + len(game.tasks) // MOST_TASKS):
        content: list[Any] = [game.tasks[place]]
        if isinstance(game.tasks, CodeTasks):
            content.append(game.tasks.problems[place])  # with the hidden tests
        digest.update(_text(content).encode("utf-8", "surrogatepass"))
    return f"{len(game.tasks)} tasks, sha256 {digest.hexdigest()}"


def refuse_changed(what: str, found: str | None, wanted: str | None, run: Path) -> None:
    """Refuse to resume on other data.

    Args:
        what: Name of the data.
        found: Its checksum now, see `task_checksum`; None: there is none.
        wanted: Its checksum in the run.
        run: Folder of the run.

    Raises:
        RunFolderError: The checksums differ.
    """
    if found != wanted:
        # Twelve of the 64 digits of a checksum are enough to read.
        now, then = (re.sub(r"([0-9a-f]{12})[0-9a-f]{52}", r"\1", text or "none") for text in (found, wanted))
        raise RunFolderError(
            f"{what} changed since {run} began: found {now}, wanted {then}; restore the data, or start a new run"
        )


def _text(value: Any) -> str:
    """Return the text of a value, the same in every process."""
    return json.dumps(value, ensure_ascii=False, skipkeys=True, default=_data)


def _data(value: Any) -> Any:
    """Return what an object holds as JSON; of one that holds no data, its type."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        given = {}
        for field in dataclasses.fields(value):
            if _is_given(value, field):
                given[field.name] = getattr(value, field.name)
        return given
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, frozenset | set):
        return sorted(map(_text, value))
    if hasattr(value, "tolist"):  # arrays and scalars of NumPy
        return value.tolist()
    return type(value).__qualname__


def _is_given(value: Any, field: dataclasses.Field[Any]) -> bool:
    """Return False for a field with its default value."""
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    elif field.default is not dataclasses.MISSING:
        default = field.default
    else:
        return True
    return _text(getattr(value, field.name)) != _text(default)
