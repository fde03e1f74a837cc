"""Grading on states: goals to reach, and changes that are not allowed.

A path names a place in a state, its keys joined by "/" (a "/" in a key is written "~1", a "~" "~0", as in
JSON Pointer): "orders/W-1/status". A pattern is a path with the wildcards of fnmatch; `*` crosses "/".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, NamedTuple

from marft_envs.tasks.tools.calls import Call


class _Absent:
    """Marker of a path that does not exist."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT = _Absent()
_LEAVES = (str, int, float, bool, type(None))
_MOST_CHANGES = 16  # of one call that its event names
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")  # 1,200 is 1200, and 1,2 is no number


@dataclass(frozen=True)
class Goal:
    """Conditions on a final state.

    Attributes:
        values: Paths and the values that must be there at the end.
        gone: Paths that must not exist at the end.
        free: Patterns of paths that may change without being goals (logs, counters). Everything else must stay
            unchanged.
        forbidden: Patterns of paths; a change there is a violation of the task's rules, reported on its own.
            It may be free: then the shortcut succeeds and is still a violation.
    """

    values: Mapping[str, Any]
    gone: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()


class StateGrade(NamedTuple):
    """Grade of a final state.

    Attributes:
        met: True for each goal that is reached, by path.
        spoilt: Paths that changed but should not have.
        violated: Paths that changed against the rules.
    """

    met: Mapping[str, bool]
    spoilt: tuple[str, ...]
    violated: tuple[str, ...]


def path_of(*keys: str | int) -> str:
    """Join keys to a path.

    Examples:
        >>> path_of("files", "/notes/a.txt", "content")
        'files/~1notes~1a.txt/content'
    """
    return "/".join(str(key).replace("~", "~0").replace("/", "~1") for key in keys)


def find(state: Any, path: str) -> Any:
    """Return the value at a path, or ABSENT.

    Examples:
        >>> find({"orders": [{"id": 7}]}, "orders/0/id")
        7
    """
    for part in path.split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(state, Mapping) and key in state:
            state = state[key]
        elif isinstance(state, list) and key.isdecimal() and int(key) < len(state):
            state = state[int(key)]
        else:
            return ABSENT
    return state


def changes(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of all leaves that differ between two states, in order of the keys.

    If the type of a container changed, only its own path is yielded. Numbers are compared as in JSON: 1 and 1.0 are
    equal, 1 and True are not. None differs from an absent path.

    Examples:
        >>> list(changes({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 3, "d": {"e": 4}}}))
        ['b/c', 'b/d/e']
    """
    if before is after:
        return
    old, new = _children(before), _children(after)
    appeared_or_gone = before is ABSENT or after is ABSENT
    other_kind = not appeared_or_gone and _kind(before) is not _kind(after)
    if old is None or new is None or other_kind:
        if before != after or other_kind:
            yield path
        return
    keys = old | new
    if not keys and appeared_or_gone:
        yield path
    for key in keys:
        one, other = old.get(key, ABSENT), new.get(key, ABSENT)
        if not _same_leaf(one, other):  # most leaves are: their paths need not be written
            yield from changes(one, other, f"{path}/{path_of(key)}" if path else path_of(key))


def _same_leaf(one: Any, other: Any) -> bool:
    """Return True for two equal leaves of one type, which a state holds most of."""
    return type(one) is type(other) and type(one) in _LEAVES and one == other


def changed(before: Any, after: Any) -> list[list[Any]]:
    """Return the first leaves that differ, as [path, new value]; the value of a removed one is None.

    Examples:
        >>> changed({"a": 1, "b": 2}, {"a": 1, "b": 3})
        [['b', 3]]
    """
    paths = islice(changes(before, after), _MOST_CHANGES)
    return [[path, None if (value := find(after, path)) is ABSENT else value] for path in paths]


def _kind(value: Any) -> type[Any] | None:
    """Return the type that distinguishes values beside `==`, for which 1 is True; None for all other leaves."""
    return next((kind for kind in (Mapping, list, tuple, bool) if isinstance(value, kind)), None)


def _children(value: Any) -> dict[str, Any] | None:
    """Return the children of a value by key; None for a leaf."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple):
        return {str(place): entry for place, entry in enumerate(value)}
    return {} if value is ABSENT else None


def alike(one: Any, other: Any) -> bool:
    """Return True if two states are equal; 1 and True are not."""
    return next(changes(one, other), None) is None


def grade_state(goal: Goal, before: Any, after: Any) -> StateGrade:
    """Grade a final state against the first."""
    met = {path: alike(find(after, path), value) for path, value in goal.values.items()}
    met |= {path: find(after, path) is ABSENT for path in goal.gone}
    spoilt, violated = [], []
    for path in changes(before, after):
        wanted = any(path == entry or path.startswith(f"{entry}/") for entry in met)
        if not wanted and not _matches(path, goal.free):
            spoilt.append(path)
        if _matches(path, goal.forbidden):
            violated.append(path)
    return StateGrade(met, tuple(spoilt), tuple(violated))


def _matches(path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def follows(reference: Sequence[Call], made: Sequence[Call]) -> float:
    """Return the fraction of a reference that the calls contain in order (longest common subsequence).

    Examples:
        >>> a, b, c = Call("a"), Call("b"), Call("c")
        >>> follows([a, b], [a, c, b]), follows([a, b], [b, a])
        (1.0, 0.5)
    """
    row = [0] * (len(made) + 1)
    for wanted in reference:
        above = row
        row = [0]
        for place, call in enumerate(made):
            row.append(above[place] + 1 if call == wanted else max(above[place + 1], row[place]))
    return row[-1] / len(reference) if reference else 0.0


def same_answer(given: str, gold: str) -> bool:
    """Compare two short answers: as numbers if both are, else without case, outer blanks and full stop.

    Examples:
        >>> same_answer(" 12.50 ", "12.5"), same_answer("Gold.", "gold"), same_answer("nan", "NaN")
        (True, True, True)
    """
    one, other = (text.strip().rstrip(".").casefold() for text in (given, gold))
    if one == other:
        return True
    try:  # exact: two long numbers that differ in a late digit are one float
        return Decimal(_THOUSANDS.sub("", one)) == Decimal(_THOUSANDS.sub("", other))
    except InvalidOperation:
        return False
