"""Load tasks from data: embedded sets, files and hub data sets in the formats they are published in.

    >>> tasks = load_tasks("gsm8k", split="test")
    >>> tasks[0].id
    'gsm8k-test-00000'

Every row is read and checked before the first task is returned: a bad row is an error at loading, not a wrong reward
later. Text and answer must exist, ids must be unique, and each gold must grade as correct against itself.
"""

import json
import os
from collections.abc import Callable
from typing import Any

from envs_data import DataError
from marft_envs.data.column_formats import Fields, MetaValue, read_gold, read_id, read_meta, read_prompt, recognise
from marft_envs.data.files import Row
from marft_envs.data.golds import Gold, check_gold
from marft_envs.data.sources import Hub, Source, installed_hub, open_source
from marft_envs.game.task import Task

__all__ = ["KINDS", "DataError", "load_tasks", "row_of"]

KINDS = ("math", "gsm8k", "aime", "cmath")


def load_tasks(
    kind: str,
    data: str | os.PathLike[str] = "embedded",
    split: str = "train",
    *,
    hub: Callable[[], Hub] = installed_hub,
) -> list[Task]:
    """Return the tasks of one split.

    Args:
        kind: Kind of task: math, gsm8k, aime (answers are whole numbers 0..999) or cmath (Chinese).
        data: "embedded" (the set named like the kind), "embedded:NAME", a path to .json, .jsonl, .csv or
            .parquet, a folder with one such file a split, or "hub:OWNER/NAME[:CONFIG][@REVISION]".
        split: Name of the split. A single file is one split of any name, unless it has a column "split".
        hub: Returns the module `datasets`, or an object with its two functions.

    Returns:
        Tasks in the order of the source. `answer` is the gold; if `meta["gold_mode"]` is not "single" it is a
        JSON list of golds. Other metadata as far as the source has it: level, subject, grade, ...

    Raises:
        DataError: With place, what was found, what was wanted and what to do.
    """
    if kind not in KINDS:
        raise DataError("load_tasks", f"kind {kind!r}", f"one of {', '.join(KINDS)}", "choose one of these")
    data = os.fspath(data) if isinstance(data, os.PathLike) else data
    if not isinstance(data, str) or not data:
        raise DataError("data", repr(data), '"embedded", "hub:OWNER/NAME" or a path', "name one of these")
    source = open_source(kind, data, split, hub)
    if data.partition(":")[0] != "embedded":
        return _tasks(kind, split, source)
    place = kind, data, split  # the rows have the checksum of the manifest, so they are those that were checked before
    if place not in _CHECKED:
        _CHECKED[place] = tuple(_tasks(kind, split, source))
    return list(_CHECKED[place])


_CHECKED: dict[tuple[str, str, str], tuple[Task, ...]] = {}  # tasks of embedded sets, by kind, data and split


def _tasks(kind: str, split: str, source: Source) -> list[Task]:
    tasks = [_task(kind, f"{source.name}-{split}-{i:05d}", split, row) for i, row in enumerate(source.rows)]
    places: dict[str, str] = {}
    for task, row in zip(tasks, source.rows, strict=True):
        if task.id in places:
            raise DataError(row.where, f"id {task.id!r} as in {places[task.id]}", "unique ids", "rename one of them")
        places[task.id] = row.where
    return tasks


def row_of(task: Task) -> dict[str, Any]:
    """Return a task of `KINDS` as a row that `load_tasks` reads.

    A problem with several golds has its first one: reading recognises such problems by their text.
    """
    several = task.meta.get("gold_mode", "single") != "single"
    known = {name: value for name, value in task.meta.items() if name not in ("kind", "gold_mode")}
    return {
        "id": task.id,
        "problem": task.prompt,
        "answer": json.loads(task.answer)[0] if several else task.answer,
        **known,
    }


def _task(kind: str, default_id: str, split: str, row: Row) -> Task:
    form = recognise(row)
    fields = Fields(row.columns)
    prompt = read_prompt(row, fields, form)
    gold = read_gold(row, fields, form, prompt)
    if kind == "aime":
        gold = _whole_number(row, gold)
    check_gold(row.where, gold, "zh" if kind == "cmath" else "en")
    meta: dict[str, MetaValue] = {"kind": kind, **read_meta(fields), "gold_mode": gold.mode}
    return Task(id=read_id(fields) or default_id, prompt=prompt, answer=gold.text, split=split, meta=meta)


def _whole_number(row: Row, gold: Gold) -> Gold:
    """Return an AIME answer without leading zeros: "025" is 25."""
    text = gold.answers[0]
    if gold.mode != "single" or not (text.isascii() and text.isdigit()) or int(text) > 999:
        raise DataError(row.where, f"answer {text!r}", "a whole number 0..999", "load it as kind math, or fix the row")
    return Gold((str(int(text)),))
