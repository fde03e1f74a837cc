"""Everything of a report but the episodes, as one JSON value: curves, intervals, costs, tables, the graph of the team.

The page draws what is there and leaves out what is not, so a field is missing or empty where nothing recorded it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from baselines.experiment.cohorts import by_size
from baselines.experiment.record_shapes import TRAINING
from baselines.report.episode_set import number_of
from baselines.report.sources import EvaluationRecord, Source, read_json
from baselines.results.agent_changes import agent_changes
from baselines.results.bench_records import curve_of
from baselines.results.comparison import ComparisonError, compare, find_evaluation, read_evaluation
from baselines.results.table_text import notes_of
from marft_agents.intervals import wilson
from marft_agents.runs.validation import validations

SCHEMA = "marft.report/1"
NOT_NUMBERS = ("accuracy", "max_turns")  # numbers of an evaluation that are shown elsewhere, or are settings
TABLE = {"team", "agents"}  # keys of counts by agent
HEADS = {"env": "environment", "algorithm": "algorithm", "sharing": "adapters", "sampler": "sampler", "model": "model"}


def overview(source: Source, other: Source | None = None) -> dict[str, Any]:
    """Return the content of a report without its episodes.

    Args:
        source: What the report is about.
        other: What it is compared with; None compares nothing.
    """
    sides = [source] if other is None else [source, other]
    return {
        "schema": SCHEMA,
        "title": " and ".join(side.label for side in sides),
        "sides": [_side(side) for side in sides],
        "comparison": None if other is None else comparison(source.path, other.path),
    }


def _side(source: Source) -> dict[str, Any]:
    return plain(
        {
            "kind": source.kind,
            "label": source.label,
            "facts": facts(source),
            "curves": curves(source.metrics),
            "validations": [[done, *interval] for done, interval in validations(source.metrics)],
            "alarms": list(source.alarms),
            "evaluations": [_evaluation(one) for one in source.evaluations],
            "gains": gains(source.evaluations),
            "changes": changes(source),
            "ledger": training_ledger(source.metrics),
            "attributions": [_attribution(name, found) for name, found in source.attributions],
            "tables": [asdict(table) | {"notes": notes_of(table)} for table in source.tables],
            "trainings": trainings(source.path) if source.kind == "bench" else [],
            "config": source.config,
            "versions": source.versions,
        }
    )


def plain(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object without NaN and infinities, which browsers do not read."""
    return {str(name): _plain(value) for name, value in record.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return plain(value)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return number_of(value)


def facts(source: Source) -> list[list[str]]:
    """Return name and value of what a reader asks first: environment, algorithm, model."""
    first = source.evaluations[0].record if source.evaluations else {}
    told = source.config or first or (source.attributions[0][1] if source.attributions else {})
    found = [[name, str(told[key])] for key, name in HEADS.items() if told.get(key)]
    models = told.get("models")
    if models:
        names = models.values() if isinstance(models, Mapping) else models
        found.append(["model", ", ".join(dict.fromkeys(map(str, names)))])
    data = (told.get("keywords") or {}).get("data")
    if data:
        found.append(["data", str(data)])
    if source.tables:
        rules = source.tables[0].rules
        found += [[name, str(rules[key])] for key, name in HEADS.items() if rules.get(key)]
    return found


# ------------------------------------------------------------------ training


def curves(metrics: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return each metric that is a number as a column over the updates; None where an update lacks it."""
    names = dict.fromkeys(name for line in metrics for name, value in line.items() if isinstance(value, int | float))
    return {name: [_short(line.get(name)) for line in metrics] for name in names}


def _short(value: Any) -> Any:
    """Return a number with six significant digits, which is what a chart can show."""
    return float(f"{value:.6g}") if isinstance(value, float) and math.isfinite(value) else number_of(value)


def training_ledger(metrics: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the sums over all updates of the measures `{prefix}/{measure}_sum` and `seconds/{part}`.

    The measures of validation are left out. None if nothing was counted.
    """
    agents: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    seconds: dict[str, float] = defaultdict(float)
    for line in metrics:
        for name, value in line.items():
            prefix, _, measure = name.partition("/")
            if not isinstance(value, int | float) or not math.isfinite(value):
                continue
            if prefix == "seconds":
                seconds[measure] += value
            elif measure.endswith("_sum") and not prefix.startswith("validation"):
                agents[prefix][measure.removesuffix("_sum")] += value
    team = agents.pop("team", None)
    return None if team is None else {"team": team, "agents": agents, "seconds": seconds}


# ------------------------------------------------------------------ evaluations


def _evaluation(one: EvaluationRecord) -> dict[str, Any]:
    record = one.record
    scores = record.get("scores") or []
    numbers = {name: value for name, value in record.items() if name not in NOT_NUMBERS and _is_number(value)}
    terms = {f"term_{name}": value for name, value in (record.get("terms") or {}).items()}
    tables = {name: value for name, value in record.items() if isinstance(value, Mapping) and value.keys() >= TABLE}
    ledger = tables.pop("ledger", None)
    return {
        "label": one.label,
        "mean": record.get("accuracy"),
        "interval": record.get("interval_95"),
        "scenarios": len(scores),
        "seeds": len(scores[0]) if scores else 0,
        "checkpoint": None if record.get("checkpoint") is None else Path(record["checkpoint"]).name,
        "temperature": (record.get("law") or {}).get("temperature"),
        "numbers": numbers | terms,
        "cohorts": cohorts_of(scores, record.get("cohorts") or {}),
        "ledger": _counts(ledger),
        "tables": {name: _counts(value) for name, value in tables.items()},
        "settings": {name: record[name] for name in ("env", "settings", "law", "context") if record.get(name)},
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _counts(record: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return counts by agent of an evaluation (its ledger, its tools) in the form of `training_ledger`."""
    if not record:
        return None
    team, seconds = dict(record.get("team") or {}), dict[str, float]()
    for name, value in record.items():
        if _is_number(value):
            (seconds if name.startswith("seconds_") else team)[name.removeprefix("seconds_")] = value
    return {"team": team, "agents": record.get("agents") or {}, "seconds": seconds}


def cohorts_of(scores: Sequence[Sequence[float | None]], cohorts: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return success with its Wilson interval by cohort and value; cohorts with a single value are left out.

    The unit is the scenario, as in the accuracy: seeds of one scenario are averaged.
    """
    found = []
    for name, values in cohorts.items():
        groups: dict[str, list[float]] = defaultdict(list)
        for value, row in zip(values, scores, strict=False):
            there = [one for one in row if one is not None]
            if there:
                groups["none" if value is None else str(value)].append(sum(there) / len(there))
        rows = [
            {"value": value, "scenarios": len(means), "interval": list(wilson(sum(means) / len(means), len(means)))}
            for value, means in sorted(groups.items(), key=lambda item: by_size(item[0]))
        ]
        if len(rows) > 1:
            found.append({"name": name, "rows": rows})
    return found


def gains(evaluations: Sequence[EvaluationRecord]) -> list[dict[str, Any]]:
    """Return the paired gain of each trained evaluation over the untrained one of the same scenarios and sampling."""
    found = []
    for before, after in _pairs(evaluations):
        difference = comparison(before.file, after.file)
        if "error" not in difference:
            found.append({"before": before.label, "after": after.label, **difference["rows"][0]})
    return found


def _pairs(evaluations: Sequence[EvaluationRecord]) -> Iterator[tuple[EvaluationRecord, EvaluationRecord]]:
    """Yield each untrained evaluation with each trained one of the same scenarios and sampling."""
    for after in evaluations:
        for before in evaluations:
            told = [(one.record.get("scenario_checksum"), one.record.get("law")) for one in (before, after)]
            trained = [one.record.get("checkpoint") is not None for one in (before, after)]
            if told[0] == told[1] and told[0][0] is not None and trained == [False, True]:
                yield before, after


def changes(source: Source) -> list[dict[str, Any]]:
    """Return the changes of each agent by training, for each evaluation before and after it.

    The KL divergences are those that `marft compare --by agent --json FILE` has left in the run.
    """
    found = []
    for before, after in _pairs(source.evaluations):
        names = [before.label, after.label]
        known = [one for one in source.comparisons if [Path(one[side][0]).parent.name for side in "ab"] == names]
        kl = (known[-1].get("by_agent") or {}).get("kl", {}) if known else {}
        one = _changes(before.file, after.file)
        if one is not None:
            found.append({"before": before.label, "after": after.label, "kl": kl, **one})
    return found


def _changes(a: Path, b: Path) -> dict[str, Any] | None:
    """Return the changes of agents and of terms between two evaluations; None without records of their episodes."""
    try:
        agents, terms = agent_changes(read_evaluation(a), read_evaluation(b))
    except (ComparisonError, ImportError):  # without the extra `bench` there are no intervals
        return None
    plain_agents = {agent: change.to_dict() for agent, change in agents.items()}
    return {"agents": plain_agents, "terms": {name: change.to_dict() for name, change in terms.items()}}


def comparison(a: Path, b: Path) -> dict[str, Any]:
    """Return the paired comparison of two evaluations or runs, or the reason why there is none as "error".

    The difference is the second minus the first. Settings that differ do not prevent it: they are listed.
    """
    try:
        first, second = (read_evaluation(find_evaluation(str(path))) for path in (a, b))
        keys = first.settings.keys() | second.settings.keys()
        differing = sorted(key for key in keys if first.settings.get(key) != second.settings.get(key))
        found = compare([first], [second], differing)
    except (ComparisonError, OSError, ImportError) as error:  # without the extra `bench` there are no intervals
        return {"error": str(error)}
    rows = [
        {
            "cohort": None if row.cohort is None else list(row.cohort),
            "scenarios": row.scenarios,
            "a": row.a,
            "b": row.b,
            "difference": [row.difference.mean, row.difference.low, row.difference.high],
            "p": row.p_adjusted,
        }
        for row in found.rows()
    ]
    return plain({"rows": rows, "totals": found.totals(), "differing": differing})


# ------------------------------------------------------------------ attribution, benchmark


def _attribution(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page draws of an attribution, without the values of each scenario."""
    kept = ("method", "replace", "scored_scenarios", "total", "command")
    numbers = {
        "agents": {agent: _without(one, "per_scenario") for agent, one in (found.get("agents") or {}).items()},
        "coalitions": [_without(one, "scores") for one in found.get("coalitions") or []],
        "influence": [_without(one, "per_scenario") for one in found.get("influence") or []],
    }
    return {"name": name, **{key: found.get(key) for key in kept}, **numbers}


def _without(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != name}


def trainings(folder: Path) -> list[dict[str, Any]]:
    """Return the learning curve of every training of a benchmark: success over the tokens generated before it."""
    found = []
    for file in sorted(folder.glob("trainings/*.json")) if folder.is_dir() else []:
        record = read_json(file, TRAINING)
        if (curve := curve_of(record)) is not None:
            kept = ("task", "team", "algorithm", "seed")
            found.append({"name": file.stem} | {name: record.get(name) for name in kept} | curve["training"])
    return found
