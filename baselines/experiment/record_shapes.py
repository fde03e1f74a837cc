"""Shapes of records: which types their fields must have for the code that reads them.

Files of others hold anything. A record is checked where it is read, so that what reads it further on may rely on its
types. A shape names only the fields that are read: others are allowed, because newer versions write more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from marft_agents.runs.validation import AFTER, BEFORE


class Mismatch(NamedTuple):
    """A value of another type than wanted.

    Attributes:
        path: Keys and indices that lead to it, as "turns[0].reward"; empty for the record itself.
        found: Description of the value.
        wanted: Description of what a reader needs.
    """

    path: str
    found: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.path + ': ' if self.path else ''}found {self.found}, wanted {self.wanted}"


Shape = Callable[[Any], Mismatch | None]
ATTRIBUTION_SCHEMA = "marft.attribution/1"  # in the results of `marft attribute`
DEEPEST = 100  # levels of a record; what reads it further on may recurse


def mismatch(value: Any, shape: Shape) -> Mismatch | None:
    """Return what is wrong with a record, or None.

    Args:
        value: Record as JSON gives it.
        shape: What its reader needs.
    """
    level = [value]  # the values at one depth; level by level, since recursion would fail on what it looks for
    for _ in range(DEEPEST):
        inside: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inside += one.values()
            elif isinstance(one, list):
                inside += one
        level = inside
        if not level:
            return shape(value)
    return Mismatch("", f"more than {DEEPEST} levels of lists and objects", "fewer")


def described(value: Any) -> str:
    """Return a description of a value of JSON for messages.

    Examples:
        >>> described("a"), described(None), described([1, 2]), described(True)
        ("text 'a'", 'null', 'list', 'true')
    """
    if isinstance(value, str):
        return f"text {value[:40]!r}" + ("..." if len(value) > 40 else "")
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return f"number {value:.6g}" if isinstance(value, float) or abs(value) < 10**15 else "a very large number"
    return "object" if isinstance(value, Mapping) else "list"


def leaf(holds: Callable[[Any], bool], wanted: str) -> Shape:
    """Return the shape of values for which a function returns True."""
    return lambda value: None if holds(value) else Mismatch("", described(value), wanted)


def _is_number(value: Any) -> bool:
    is_whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**300  # which a float can hold
    return is_whole or isinstance(value, float)


ANY: Shape = lambda value: None  # noqa: E731 - like the shapes below
TEXT = leaf(lambda value: isinstance(value, str), "text")
FLAG = leaf(lambda value: isinstance(value, bool), "true or false")
NUMBER = leaf(_is_number, "a number")
FINITE = leaf(lambda value: _is_number(value) and math.isfinite(value), "a finite number")
POSITIVE = leaf(lambda value: _is_number(value) and 0 < value < math.inf, "a number above 0")
SHARE = leaf(lambda value: _is_number(value) and 0 <= value <= 1, "a number from 0 to 1")


def nullable(shape: Shape) -> Shape:
    """Return the shape of values that may be null."""

    def check(value: Any) -> Mismatch | None:
        found = None if value is None else shape(value)
        return found if found is None or found.path else found._replace(wanted=f"{found.wanted} or null")

    return check


def list_of(shape: Shape = ANY, length: int | None = None) -> Shape:
    """Return the shape of lists of one shape, of a certain length if one is given."""
    wanted = "a list" if length is None else f"a list of {length}"

    def check(value: Any) -> Mismatch | None:
        if not isinstance(value, list) or (length is not None and len(value) != length):
            found = f"list of {len(value)}" if isinstance(value, list) else described(value)
            return Mismatch("", found, wanted)
        for number, one in enumerate(value):
            if (wrong := shape(one)) is not None:
                return _below(f"[{number}]", wrong)
        return None

    return check


def pair_of(first: Shape, second: Shape) -> Shape:
    """Return the shape of lists of two values, each of its own shape."""
    both = list_of(length=2)

    def check(value: Any) -> Mismatch | None:
        wrong = both(value)
        for number, shape in enumerate((first, second)):
            inner = None if wrong else shape(value[number])
            wrong = wrong or (inner and _below(f"[{number}]", inner))
        return wrong

    return check


def mapping_of(shape: Shape = ANY) -> Shape:
    """Return the shape of objects whose values have one shape."""

    def check(value: Any) -> Mismatch | None:
        if not isinstance(value, dict):
            return Mismatch("", described(value), "an object")
        for name, one in value.items():
            if (wrong := shape(one)) is not None:
                return _below(name, wrong)
        return None

    return check


def record(required: Mapping[str, Shape] | None = None, /, **optional: Shape) -> Shape:
    """Return the shape of objects with certain fields; further fields are allowed."""
    fields = {**(required or {}), **optional}

    def check(value: Any) -> Mismatch | None:
        if not isinstance(value, dict):
            return Mismatch("", described(value), "an object")
        for name in required or ():
            if name not in value:
                return Mismatch("", f"no field {name!r}", "one")
        for name, shape in fields.items():
            if name in value and (wrong := shape(value[name])) is not None:
                return _below(name, wrong)
        return None

    return check


def either(*shapes: Shape) -> Shape:
    """Return the shape of values that have one of several shapes."""

    def check(value: Any) -> Mismatch | None:
        wrong = []
        for shape in shapes:
            found = shape(value)
            if found is None:
                return None
            wrong.append(found)
        # The one that fits furthest is the one that was meant.
        deepest = max(wrong, key=lambda one: len(one.path))
        return deepest if deepest.path else deepest._replace(wanted=" or ".join(one.wanted for one in wrong))

    return check


def _below(key: str, wrong: Mismatch) -> Mismatch:
    joint = "" if not wrong.path or wrong.path.startswith("[") else "."
    return wrong._replace(path=f"{key}{joint}{wrong.path}")


# ------------------------------------------------------------------ records of runs and evaluations

_SCORES = list_of(list_of(nullable(SHARE)))
_COUNTS = list_of(list_of(nullable(NUMBER)))
_ESTIMATE = record(mean=nullable(NUMBER), interval_95=nullable(list_of(nullable(NUMBER), 2)))
_OF_AGENTS = record(team=nullable(mapping_of()), agents=nullable(mapping_of(mapping_of())))

_TURN = record(
    {"agent": TEXT, "round": FINITE, "text": TEXT, "reward": nullable(NUMBER)},
    rewards=nullable(mapping_of(nullable(NUMBER))),
    tokens=nullable(FINITE),
    prompt_tokens=nullable(FINITE),
    stopped=nullable(FLAG),
    logprob=nullable(NUMBER),
    shortened=nullable(list_of()),
    sampled=mapping_of(nullable(list_of())),
)
_PLAYED = record(
    observation=TEXT,
    visible=list_of(pair_of(FINITE, TEXT)),
    fault=nullable(TEXT),
    shortened=nullable(list_of()),
    reads=nullable(list_of(pair_of(FINITE, TEXT))),
    delivered_before=nullable(FINITE),
)
_GAME = record(
    task_id=nullable(TEXT),
    turns=nullable(list_of(_PLAYED)),
    outcomes=nullable(list_of(nullable(mapping_of()))),
    terms=nullable(mapping_of(nullable(NUMBER))),
)
EPISODE = record(
    {
        "update": nullable(FINITE),
        "group": nullable(FINITE),
        "seed": nullable(FINITE),
        "return": nullable(NUMBER),
        "terminated": FLAG,
        "failure": nullable(TEXT),
        "infos": mapping_of(nullable(NUMBER)),
        "turns": list_of(_TURN),
    },
    game=nullable(_GAME),
)
CONFIG = record(keywords=nullable(mapping_of()), models=nullable(either(mapping_of(), list_of(), TEXT)))
VERSIONS = mapping_of()
_VALIDATED = [f"{name}/{value}" for name in (AFTER, BEFORE) for value in ("success", "low", "high")]


def metrics(value: Any) -> Mismatch | None:
    """Return what is wrong with a line of metrics.jsonl: metrics are numbers, and a validation has its interval."""
    wrong = mapping_of(nullable(NUMBER))(value)
    if wrong is None:
        for name in _VALIDATED:
            if f"{name.partition('/')[0]}/success" in value and (wrong := record({name: NUMBER})(value)) is not None:
                return wrong
    return wrong


ALARM = record(
    update=nullable(FINITE),
    agent=nullable(TEXT),
    kind=nullable(TEXT),
    measure=nullable(TEXT),
    sentence=nullable(TEXT),
    value=nullable(NUMBER),
    threshold=nullable(NUMBER),
)
_EVALUATION = record(
    accuracy=nullable(NUMBER),
    interval_95=nullable(list_of(nullable(NUMBER), 2)),
    scores=nullable(_SCORES),
    tokens=nullable(_COUNTS),
    violation=nullable(_COUNTS),
    leak=nullable(_COUNTS),
    cohorts=nullable(mapping_of(list_of())),
    checkpoint=nullable(TEXT),
    scenario_checksum=nullable(TEXT),
    law=nullable(mapping_of()),
    settings=nullable(mapping_of()),
    keywords=nullable(mapping_of()),
    context=nullable(mapping_of()),
    versions=nullable(mapping_of()),
    terms=nullable(mapping_of(nullable(NUMBER))),
    ledger=nullable(_OF_AGENTS),
    models=nullable(either(mapping_of(), list_of(), TEXT)),
)


def evaluation(value: Any) -> Mismatch | None:
    """Return what is wrong with an evaluation.json, of which counts by agent may have any name."""
    wrong = _EVALUATION(value)
    if wrong is None:
        for name, counts in value.items():
            if isinstance(counts, dict) and counts.keys() >= {"team", "agents"} and (wrong := _OF_AGENTS(counts)):
                return _below(name, wrong)
    return wrong


ATTRIBUTION = record(
    versions=nullable(mapping_of()),
    keywords=nullable(mapping_of()),
    models=nullable(either(mapping_of(), list_of(), TEXT)),
    agents=nullable(mapping_of(_ESTIMATE)),
    coalitions=nullable(list_of(record({"players": list_of(TEXT)}, mean=nullable(NUMBER)))),
    influence=nullable(list_of(record({"author": TEXT, "reader": TEXT}))),
    total=nullable(_ESTIMATE),
    scored_scenarios=nullable(FINITE),
)
COMPARISON = record(
    {"a": list_of(TEXT), "b": list_of(TEXT)},
    by_agent=record(
        kl=mapping_of(either(TEXT, record(mean=nullable(NUMBER), low=nullable(NUMBER), high=nullable(NUMBER))))
    ),
)

# ------------------------------------------------------------------ records of benchmarks

_POINTS = record({"tokens": list_of(FINITE), "success": list_of(FINITE)})


def _curve_points(value: Any) -> Mismatch | None:
    """Return what is wrong with the points of a learning curve: as many tokens, ascending, as successes."""
    wrong = _POINTS(value)
    if wrong is None:
        tokens, success = value["tokens"], value["success"]
        if len(tokens) != len(success):
            return Mismatch("success", f"list of {len(success)}", f"a list of {len(tokens)}, as tokens")
        if tokens != sorted(tokens):
            return Mismatch("tokens", "numbers that descend", "ascending ones")
    return wrong


TRAINING = record(
    success=nullable(list_of(nullable(NUMBER))),
    tokens_by_update=nullable(list_of(FINITE)),
    validation=nullable(_curve_points),
    task=nullable(TEXT),
    team=nullable(TEXT),
    algorithm=nullable(TEXT),
    seed=nullable(FINITE),
)
_NAMES = dict.fromkeys(("plan", "plan_checksum", "cell", "task", "team", "arm", "algorithm", "commit", "command"), TEXT)
_FAILED = record({**_NAMES, "training_seed": nullable(FINITE), "failure": nullable(TEXT)})
_RULES = dict.fromkeys(("env", "data", "feedback", "temperature"), ANY)
_TRIAL = record({"settings": mapping_of(), "success": nullable(FINITE), "tokens": nullable(FINITE)})
_PLAYED_CELL = record(
    {
        "rules": record({**_RULES, "model": TEXT, "horizon": FINITE}, dtype=TEXT),
        "scenarios": record({"count": FINITE, "checksum": TEXT}),
        "evaluation_seeds": list_of(),
        "scores": _SCORES,
        "answers": POSITIVE,
        "training_tokens": nullable(FINITE),
        "training_seconds": nullable(FINITE),
        "output_tokens_per_answer": FINITE,
        "cap_hit_share": FINITE,
        "failed_episodes": FINITE,
        "seconds": FINITE,
        "ledger": record(
            {
                "evaluation": record(
                    {
                        "team": record({"ideal_cache_tokens": nullable(FINITE)}),
                        "critical_path_tokens": nullable(FINITE),
                    }
                )
            }
        ),
    },
    vote=record({"samples": FINITE}),
    training=TEXT,
    training_updates=nullable(FINITE),
    training_episodes=nullable(FINITE),
    curve=nullable(record(training=nullable(_curve_points), validation=nullable(_curve_points))),
    settings=nullable(mapping_of()),
    tuned=nullable(record({"grid": list_of(_TRIAL), "chosen": mapping_of()})),
    cohorts=nullable(mapping_of(list_of())),
)


def cell(value: Any) -> Mismatch | None:
    """Return what is wrong with the record of a benchmark's cell; one that failed has names and its cause alone."""
    wrong = _FAILED(value)
    if wrong is not None or value["failure"] is not None:
        return wrong
    wrong = _PLAYED_CELL(value)
    if wrong is None:
        rows, count = value["scores"], value["scenarios"]["count"]
        shape = list_of(list_of(length=len(value["evaluation_seeds"])))(rows)
        if shape is not None:
            return _below("scores", shape)
        if len(rows) != count or not rows or not rows[0]:
            return Mismatch("scores", f"{len(rows)} rows of {len(rows[0]) if rows else 0}", f"{count} of at least one")
    return wrong


EXPORT = record({"cohorts": mapping_of(nullable(mapping_of(list_of()))), "cells": list_of(mapping_of())})
