"""Drafts: rows on their way into a data set, with the template and the parameters they came from.

A template is a function of a random generator that returns one draft. `deal` draws from many templates
until each has given its share, never the same parameters twice and never the same text twice, and parts
the drafts into splits; so no pair (template, parameters) and no text is in two of them by construction.
Each template has its own generator, seeded by names: a new template leaves the rows of the others alone.
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
    """One generated row: what decides its answer, and the row itself.

    Attributes:
        parameters: What makes this problem different from its siblings of the same template, names and
            other decoration left out.
        row: The columns of the data set.
    """

    parameters: tuple[object, ...]
    row: dict[str, Any]


Template = Callable[[random.Random], Draft]


@dataclass(frozen=True)
class Group:
    """Templates that share a quota of rows.

    Attributes:
        name: Group name, part of the seeds.
        templates: Functions with distinct names; the name of a function is the name of its template.
        train: Number of training rows of the group.
        test: Number of test rows of the group.
        safety: Number of rows of the group in the split "safety", which few sets have.
    """

    name: str
    templates: tuple[Template, ...]
    train: int
    test: int
    safety: int = 0


@dataclass(frozen=True)
class Attachment:
    """Rows that belong to a data set and are no problems, such as the solutions of its problems.

    Attributes:
        name: Name of its file and in the manifest.
        columns: All columns, in the order in which they are written.
        rows: Makes the rows.
    """

    name: str
    columns: tuple[str, ...]
    rows: Callable[[], list[dict[str, Any]]]


@dataclass(frozen=True)
class SetSpec:
    """A data set to be built.

    Attributes:
        name: Folder and manifest name.
        description: What it is, in one or two sentences, with its limits.
        groups: Templates with quotas.
        text_column: The column that holds the problem's text.
        columns: All columns, in the order in which they are written.
        number: Column to be filled with "{name}-{split}-{number:04d}", the name without its folder, or "" for
            none.
    """

    name: str
    description: str
    groups: tuple[Group, ...]
    text_column: str
    columns: tuple[str, ...]
    number: str = ""
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True)
class Dealt:
    """A draft with its place: the template `group/function` it came from and its split."""

    template: str
    split: str
    draft: Draft


def normalise(text: str) -> str:
    """Return the text in lower case with runs of white space as one blank, for comparing."""
    return re.sub(r"\s+", " ", text).strip().casefold()


def deal(name: str, groups: Iterable[Group], text_column: str) -> list[Dealt]:
    """Draw every group's quota and part it into the splits.

    Args:
        name: Data set name, part of the seeds.
        groups: Templates with quotas.
        text_column: The column of `Draft.row` that must be unique in the whole set.

    Returns:
        All drafts in a shuffled but reproducible order, train first.

    Raises:
        ValueError: A template could not give its share of distinct drafts.
    """
    seen: set[str] = set()
    dealt: list[Dealt] = []
    for group in groups:
        trains = shares(group.train, len(group.templates))
        tests = shares(group.test, len(group.templates), from_the_end=True)
        safeties = shares(group.safety, len(group.templates))
        for template, train, test, safety in zip(group.templates, trains, tests, safeties, strict=True):
            full_name = f"{group.name}/{_name(template)}"
            rng = random.Random(f"{name}/{full_name}")
            splits = ["train"] * train + ["test"] * test + ["safety"] * safety
            drafts = _distinct(template, full_name, rng=rng, count=len(splits), column=text_column, seen=seen)
            dealt += [Dealt(full_name, split, draft) for split, draft in zip(splits, drafts, strict=True)]
    random.Random(f"{name}/order").shuffle(dealt)
    return sorted(dealt, key=lambda d: d.split != "train")


def shares(total: int, parts: int, *, from_the_end: bool = False) -> list[int]:
    """Part `total` into `parts` whole numbers that differ by at most one.

    Args:
        total: What to part.
        parts: Number of parts.
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
