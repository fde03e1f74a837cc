"""Drafts of data set rows, and their sampling from templates into splits.

A template is a function of a random generator that returns one draft. `deal` samples from many templates until each
has reached its quota, and assigns the drafts to splits. It never repeats the parameters of a template or a text, so
the splits share neither by construction.
Each template has its own generator, seeded by names, so a new template does not change the rows of the others.
"""

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

ATTEMPTS_PER_DRAFT = 200
"""How often a template may repeat itself before we call it exhausted."""


@dataclass(frozen=True)
class Draft:
    """One generated row with the parameters that determine its answer.

    Attributes:
        parameters: Values that distinguish this problem from others of the same template, without names and other
            decoration.
        row: Value of each column of the data set.
    """

    parameters: tuple[object, ...]
    row: dict[str, Any]


Template = Callable[[random.Random], Draft]


@dataclass(frozen=True)
class Group:
    """Group of templates that share a quota of rows.

    Attributes:
        name: Group name, part of the seeds.
        templates: Functions with distinct names; the name of a function is the name of its template.
        train: Number of training rows of the group.
        test: Number of test rows of the group.
        safety: Number of rows of the group in the split "safety", which few sets have.
        bench: Number of rows of the group in the split "bench": further test problems, for comparisons that need many.
    """

    name: str
    templates: tuple[Template, ...]
    train: int
    test: int
    safety: int = 0
    bench: int = 0


@dataclass(frozen=True)
class Attachment:
    """Additional rows of a data set that are not problems, such as solutions.

    Attributes:
        name: Name of its file and of its entry in the manifest.
        columns: All columns, in the order in which they are written.
        rows: Function that returns the rows.
    """

    name: str
    columns: tuple[str, ...]
    rows: Callable[[], list[dict[str, Any]]]


@dataclass(frozen=True)
class SetSpec:
    """Specification of a data set to build.

    Attributes:
        name: Name of its folder and of its entry in the manifest.
        description: Content and limits in one or two sentences.
        groups: Groups of templates with quotas.
        text_column: Name of the column that holds the problem's text.
        columns: All columns, in the order in which they are written.
        number: Column to fill with "{name}-{split}-{number:04d}", with the name without its folder; "" for none.
        attachments: Further files of the set.
        levels: Definition of each value of the column `level`, from 1; empty where there is none.
    """

    name: str
    description: str
    groups: tuple[Group, ...]
    text_column: str
    columns: tuple[str, ...]
    number: str = ""
    attachments: tuple[Attachment, ...] = ()
    levels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dealt:
    """A draft with its template `group/function` and its split."""

    template: str
    split: str
    draft: Draft


def normalise(text: str) -> str:
    """Normalize a text for comparison: case-folded, with runs of white space as one blank."""
    return re.sub(r"\s+", " ", text).strip().casefold()


def deal(name: str, groups: Iterable[Group], text_column: str) -> list[Dealt]:
    """Sample the quota of every group and assign the drafts to splits.

    Args:
        name: Data set name, part of the seeds.
        groups: Groups of templates with quotas.
        text_column: The column of `Draft.row` that must be unique in the whole set.

    Returns:
        All drafts in a shuffled but reproducible order, train first and bench last.

    Raises:
        ValueError: A template did not reach its quota of distinct drafts.
    """
    seen: set[str] = set()
    dealt: list[Dealt] = []
    for group in groups:
        trains = shares(group.train, len(group.templates))
        tests = shares(group.test, len(group.templates), from_the_end=True)
        safeties = shares(group.safety, len(group.templates))
        benches = shares(group.bench, len(group.templates))
        quotas = zip(trains, tests, safeties, benches, strict=True)
        for template, (train, test, safety, bench) in zip(group.templates, quotas, strict=True):
            full_name = f"{group.name}/{_name(template)}"
            rng = random.Random(f"{name}/{full_name}")
            splits = ["train"] * train + ["test"] * test + ["safety"] * safety + ["bench"] * bench
            drafts = _distinct(template, full_name, rng=rng, count=len(splits), column=text_column, seen=seen)
            dealt += [Dealt(full_name, split, draft) for split, draft in zip(splits, drafts, strict=True)]
    further = [d for d in dealt if d.split == "bench"]  # shuffled on its own: the order of the others stays
    dealt = [d for d in dealt if d.split != "bench"]
    random.Random(f"{name}/order").shuffle(dealt)
    random.Random(f"{name}/order/bench").shuffle(further)
    return sorted(dealt, key=lambda d: d.split != "train") + further


def shares(total: int, parts: int, *, from_the_end: bool = False) -> list[int]:
    """Split `total` into `parts` integers that differ by at most one.

    Args:
        total: Number to be split.
        parts: Number of parts to return.
        from_the_end: Give the remainder to the last parts instead of the first.
    """
    quotient, remainder = divmod(total, parts)
    result = [quotient + (i < remainder) for i in range(parts)]
    return result[::-1] if from_the_end else result


def _name(template: Template) -> str:
    return str(getattr(template, "__name__", template)).lstrip("_")


def _distinct(
    template: Template, name: str, *, rng: random.Random, count: int, column: str, seen: set[str]
) -> Sequence[Draft]:
    drafts: list[Draft] = []
    parameters: set[tuple[object, ...]] = set()
    attempts = ATTEMPTS_PER_DRAFT * max(count, 1)
    while len(drafts) < count and attempts:
        attempts -= 1
        draft = template(rng)
        text = normalise(draft.row[column])
        if draft.parameters in parameters or text in seen:
            continue
        parameters.add(draft.parameters)
        seen.add(text)
        drafts.append(draft)
    if len(drafts) < count:
        raise ValueError(
            f"template {name}: found {len(drafts)} distinct drafts, wanted {count}; "
            "widen its parameters or lower the quota of its group"
        )
    return drafts
