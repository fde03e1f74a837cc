"""Tables of a benchmark from its records alone, see `baselines.cli.bench_table`.

One table per task, worst row first. Success has its 95 % interval over training seeds and scenarios. Differences are
paired over both and their p-values adjusted by Holm over the rows of the table (`baselines.results.statistics`). A row
that no claim can rest on has no p-value and no minimum detectable effect, and says why (`ArmRow.limits`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from baselines.results.bench_records import Record, RecordsError
from baselines.results.learning_curves import Curves, Group, curves_of
from baselines.results.statistics import PairedDifference, grid_mean, holm, noise_floor, paired_difference, wilson

TEAM, REFERENCE = "team", "solo@tokens"
WHOLE = "solo@whole"  # the one arm with a window of its own
FEWEST_SCENARIOS = 30  # below it, t intervals of shares are rough (Bowyer et al. 2025, arXiv:2503.01747)
MOST_FAILED = 0.05  # largest share of failed answers that may be left out of a claim
Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CommonSeeds:
    """Seeds and means of a difference between two arms that do not have the same training seeds.

    Attributes:
        seeds: Training seeds of the difference.
        success: Mean of the arm over the pairs of the difference.
        reference: Mean of the reference over them.
    """

    seeds: tuple[int, ...]
    success: float
    reference: float


@dataclass(frozen=True)
class ArmRow:
    """One arm of a table; numbers are means over training seeds unless they say otherwise.

    Attributes:
        arm: Name of the arm.
        team: Team that plays, or that the one agent is matched to.
        algorithm: Algorithm of the training; empty for the untrained team.
        seeds: Training seeds; 0 for the untrained team.
        success: Mean and 95 % interval.
        difference: Paired difference to the reference with its 95 % interval; None where nothing is compared.
        unequal: Training seeds of the difference, where one of both arms has others too; None: all of both.
        limits: Reasons why no claim about the training can rest on the row; empty: none is known.
        p_value: Of the difference, adjusted over the rows of the table; None where `limits` has a reason.
        detectable: Minimum detectable effect of the difference at 80 % power; None likewise.
        training_tokens: Generated tokens of a training.
        updates: Updates of a training.
        episodes: Episodes of a training.
        output_tokens: Generated tokens per answer.
        ideal_cache_tokens: Tokens per answer that an ideal KV cache computes.
        critical_path_tokens: Output tokens per answer that must follow each other.
        seconds: Training and evaluation of all seeds.
        failures: Failed episodes of all seeds.
        cap_hit_share: Share of actions that the token limit cut.
        note: Number of samples of a vote; empty for other arms.
        coordination_gap: Success of the one agent with all tools minus that of a team whose agents have different
            tools, paired, with its 95 % interval; None for other teams and arms.
        trainings: Names of the trainings, one a seed; empty for the untrained team.
        settings: Settings of the training that are the arm's own; empty: those of the task. Several where seeds differ.
        tuned: Grids from which the settings were chosen on validation tasks, each with `grid` and `chosen`.
    """

    arm: str
    team: str
    algorithm: str
    seeds: int
    success: tuple[float, float, float]
    difference: tuple[float, float, float] | None
    unequal: CommonSeeds | None
    limits: tuple[str, ...]
    p_value: float | None
    detectable: float | None
    training_tokens: float | None
    updates: float | None
    episodes: float | None
    output_tokens: float
    ideal_cache_tokens: float | None
    critical_path_tokens: float | None
    seconds: float
    failures: int
    cap_hit_share: float
    note: str
    coordination_gap: tuple[float, float, float] | None
    trainings: tuple[str, ...]
    settings: tuple[Mapping[str, Any], ...]
    tuned: tuple[Mapping[str, Any], ...]

    @property
    def key(self) -> Group:
        """Arm, team and algorithm."""
        return self.arm, self.team, self.algorithm


@dataclass(frozen=True)
class TaskTable:
    """The table of one task.

    Attributes:
        task: Name of the task.
        reference: Arm that the others are compared with.
        rules: What all arms share: rounds, feedback, test problems.
        rows: All rows, the worst one first.
        noise_floor: Half-width of the difference between two evaluations of one model; None: not measured.
        failed: Cells without a result, with their causes.
        commits: Commits of the records.
        commands: Command lines of the records.
        curve: Learning curves; None: the records have none.
    """

    task: str
    reference: str
    rules: Mapping[str, Any]
    rows: tuple[ArmRow, ...]
    noise_floor: float | None
    failed: tuple[str, ...]
    commits: tuple[str, ...]
    commands: tuple[str, ...]
    curve: Curves | None


# ------------------------------------------------------------------ numbers


def tables_of(records: Sequence[Record], reference: str = REFERENCE) -> list[TaskTable]:
    """Compute the table of every task.

    Args:
        records: Cells of one or more plans. Tasks of one name that play different problems in each plan are told
            apart by the name of their plan.
        reference: Arm that the others of the same team are compared with.

    Raises:
        RecordsError: Cells of one task differ in their scenarios, model or dtype.
    """
    played: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))  # task -> plan -> lists of scenarios
    for record in records:
        if record["failure"] is None:
            played[record["task"]][record["plan"]].add(record["scenarios"]["checksum"])
    by_task: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        task, plans = record["task"], list(played[record["task"]].values())
        apart = len(plans) > 1 and not set.intersection(*plans)  # two plans have a task of this name
        by_task[f"{record['plan']} {task}" if apart else task].append(record)
    return [_table(task, found, reference) for task, found in by_task.items()]


def tasks_as_arms(records: Sequence[Record]) -> list[Record]:
    """Return the records with the task in place of the arm, so that the tasks of a plan are rows of one table.

    This compares tasks that differ in one setting and play the same problems.

    Raises:
        RecordsError: The records are of several arms.
    """
    arms = sorted({record["arm"] for record in records})
    if len(arms) > 1:
        raise RecordsError(f"found the arms {', '.join(arms)}; wanted one, where tasks are the rows of a table")
    return [{**record, "task": record["plan"], "arm": record["task"]} for record in records]


def _table(task: str, records: Sequence[Record], reference: str) -> TaskTable:
    played = [record for record in records if record["failure"] is None]
    checksums = {record["scenarios"]["checksum"]: record["cell"] for record in played}
    if len(checksums) > 1:
        raise RecordsError(
            f"task {task!r}: cells play different scenarios ({', '.join(sorted(checksums.values()))}); wanted the same "
            "ones for all arms of a table"
        )
    for name in ("model", "dtype"):
        found_values = sorted({record["rules"].get(name, "auto") for record in played})
        if len(found_values) > 1:
            raise RecordsError(
                f"task {task!r}: cells differ in {name} ({', '.join(found_values)}); wanted one {name} for all arms of "
                "a table"
            )
    windows = {
        record["rules"].get("context_window", 0): record["cell"]
        for record in played
        if not record["arm"].startswith(WHOLE)
    }
    if len(windows) > 1:
        told = ", ".join(f"{cell} {tokens or 'none'}" for tokens, cell in windows.items())
        raise RecordsError(
            f"task {task!r}: cells differ in context_window ({told}); wanted one for all arms but {WHOLE}"
        )
    groups: dict[Group, list[Record]] = defaultdict(list)
    for record in sorted(played, key=lambda record: record["training_seed"] or 0):
        groups[record["arm"], record["team"], record["algorithm"]].append(record)
    references = {key: _reference_of(key, groups, reference) for key in groups}
    rows = _adjusted([_row(key, found, references[key]) for key, found in groups.items()])
    failed = tuple(f"{record['cell']}: {record['failure']}" for record in records if record["failure"] is not None)
    return TaskTable(
        task=task,
        reference=reference,
        rules=_rules(played),
        rows=tuple(sorted(rows, key=lambda row: (row.success[0], row.arm, row.team, row.algorithm))),
        noise_floor=_floor([record for record in played if record["arm"] == reference] or played),
        failed=failed,
        commits=tuple(sorted({record["commit"] for record in records})),
        commands=tuple(sorted({record["command"] for record in records})),
        curve=curves_of(groups, references, (TEAM, reference)),
    )


def _reference_of(key: Group, groups: Mapping[Group, Sequence[Record]], reference: str) -> Sequence[Record]:
    """Return the records of the reference for an arm: of its team, and of its algorithm if there are several."""
    _, team, algorithm = key
    by_algorithm = {}
    for (arm, other_team, other_algorithm), records in groups.items():
        if (arm, other_team) == (reference, team):
            by_algorithm[other_algorithm] = records
    return by_algorithm.get(algorithm) or next(iter(by_algorithm.values()), [])


def _scores(record: Record) -> Scores:
    """Return the scores of a cell, float64 [scenarios, samples]; NaN where the episode failed."""
    return np.asarray(record["scores"], np.float64)  # null is None, which numpy reads as NaN


def grid(records: Sequence[Record]) -> Scores:
    """Return success by training seed and scenario, float64 [seeds, scenarios]; NaN where every episode failed."""
    rows = []
    for record in records:
        scores = _scores(record)
        scored = ~np.isnan(scores)
        sums, counts = np.where(scored, scores, 0.0).sum(axis=1), scored.sum(axis=1)
        rows.append(np.where(counts > 0, sums / np.maximum(counts, 1), math.nan))
    return np.asarray(rows, np.float64)


def _row(key: Group, records: Sequence[Record], reference: Sequence[Record]) -> ArmRow:
    arm, team, algorithm = key
    lone_vote = all("vote" in record and record["vote"]["samples"] == 1 for record in records)
    compared = bool(reference) and reference is not records and not lone_vote
    difference, unequal = _difference(records, reference) if compared else (None, None)
    limits = _limits(records, reference if compared else records, difference)
    if lone_vote:
        limits = (*limits, "a vote of one sample is one more answer of the one agent, so no difference is tested")
    elif compared and difference is None:
        limits = (*limits, f"no training seed and problem was scored both here and in {reference[0]['arm']}")
    divided_tools = any(record["rules"].get("divided_tools") for record in records)  # older records do not say
    gap = None
    if difference is not None and (arm, reference[0]["arm"]) == (TEAM, REFERENCE) and divided_tools:
        gap = -difference.mean, -difference.high, -difference.low  # the one agent minus the team
    votes = sorted({record["vote"]["samples"] for record in records if "vote" in record})
    evaluation = [record["ledger"]["evaluation"] for record in records]

    def column(name: str) -> list[Any]:
        return [record[name] for record in records]

    return ArmRow(
        arm=arm,
        team=team,
        algorithm=algorithm,
        seeds=len(records) - column("training_seed").count(None),
        success=_success(grid(records)),
        difference=None if difference is None else (difference.mean, difference.low, difference.high),
        unequal=unequal,
        limits=limits,
        p_value=None if difference is None or limits else difference.p_value,
        detectable=None if difference is None or limits else difference.detectable,
        training_tokens=_mean(column("training_tokens")),
        updates=_mean([record.get("training_updates") for record in records]),  # older records do not say
        episodes=_mean([record.get("training_episodes") for record in records]),
        output_tokens=float(np.mean(column("output_tokens_per_answer"))),
        ideal_cache_tokens=_per_answer([each["team"]["ideal_cache_tokens"] for each in evaluation], column("answers")),
        critical_path_tokens=_per_answer([each["critical_path_tokens"] for each in evaluation], column("answers")),
        seconds=sum(record["seconds"] + (record["training_seconds"] or 0.0) for record in records),
        failures=sum(column("failed_episodes")),
        cap_hit_share=float(np.mean(column("cap_hit_share"))),
        note=f"{', '.join(map(str, votes))} sample{'s' * (votes != [1])}" if votes else "",
        coordination_gap=gap,
        trainings=tuple(record["training"] for record in records if record.get("training")),
        settings=_distinct(records, "settings"),
        tuned=_distinct(records, "tuned"),
    )


def _success(scores: Scores) -> tuple[float, float, float]:
    """Return the mean with its interval over seeds and scenarios; Wilson's for one seed, or where nothing varies."""
    found = grid_mean(scores)
    if len(scores) == 1 or found.low == found.high:
        found = wilson(found.mean, int((~np.isnan(scores)).any(axis=0).sum()))
    return found.mean, found.low, found.high


def _difference(
    records: Sequence[Record], reference: Sequence[Record]
) -> tuple[PairedDifference | None, CommonSeeds | None]:
    """Compare two arms on the training seeds that both have; an untrained team is compared with every seed."""
    ours, theirs = _seeds(records), _seeds(reference)
    if None in ours or None in theirs:
        found = paired_difference(grid(reference), grid(records))
        return (found if found.pairs else None), None
    common = [seed for seed in ours if seed in theirs]
    if not common:
        return None, None
    a = grid([reference[theirs.index(seed)] for seed in common])
    b = grid([records[ours.index(seed)] for seed in common])
    found = paired_difference(a, b)
    if not found.pairs:
        return None, None
    paired = ~np.isnan(a) & ~np.isnan(b)
    seeds = tuple(seed for seed, row in zip(common, paired, strict=True) if row.any())
    if len(seeds) == len(ours) == len(theirs):
        return found, None
    return found, CommonSeeds(seeds, float(b[paired].mean()), float(a[paired].mean()))


def _seeds(records: Sequence[Record]) -> list[Any]:
    return [record["training_seed"] for record in records]


def _limits(
    records: Sequence[Record], reference: Sequence[Record], difference: PairedDifference | None
) -> tuple[str, ...]:
    """Return why no claim about the training can rest on a row; the reference itself is its own reference."""
    found = []
    trained = [seed for seed in _seeds(records) if seed is not None]
    if len(trained) == 1:
        found.append("one training seed: the interval holds for these teams, not for their training")
    elif difference is not None and difference.seeds == 1 and (trained or None not in _seeds(reference)):
        found.append("one training seed of the difference: its interval holds for these teams, not for their training")
    scenarios = int((~np.isnan(grid(records))).any(axis=0).sum()) if difference is None else difference.scenarios
    if scenarios < FEWEST_SCENARIOS:
        found.append(f"scored on fewer than {FEWEST_SCENARIOS} problems, where intervals of shares are rough")
    failed = max(_failed_share(records), _failed_share(reference))
    if failed > MOST_FAILED:
        found.append(f"more than {MOST_FAILED:.0%} of the answers failed, here or in the arm that it is compared with")
    return tuple(found)


def _failed_share(records: Sequence[Record]) -> float:
    """Return the share of the answers of all seeds that have no score."""
    return float(np.mean(np.concatenate([np.isnan(_scores(record)).ravel() for record in records])))


def _distinct(records: Sequence[Record], name: str) -> tuple[Mapping[str, Any], ...]:
    """Return the different values of a field that older records do not have; empty ones are left out."""
    found: list[Mapping[str, Any]] = []
    for record in records:
        value = record.get(name)
        if value and value not in found:
            found.append(value)
    return tuple(found)


def _adjusted(rows: Sequence[ArmRow]) -> list[ArmRow]:
    """Replace p-values by those adjusted over the table."""
    p_values = holm([math.nan if row.p_value is None else row.p_value for row in rows])
    adjusted = []
    for row, p_value in zip(rows, p_values, strict=True):
        adjusted.append(replace(row, p_value=None if math.isnan(p_value) else p_value))
    return adjusted


def _mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are known; None if none is."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _per_answer(sums: Sequence[float | None], answers: Sequence[int]) -> float | None:
    """Return the mean per answer of sums over several evaluations; None if none of them was counted."""
    known, counts = [], []
    for value, count in zip(sums, answers, strict=True):
        if value is not None:
            known.append(value)
            counts.append(count)
    return sum(known) / sum(counts) if known else None


def _floor(records: Sequence[Record]) -> float | None:
    """Return the mean over trained teams of the noise floor between their first two evaluation seeds."""
    floors = []
    for record in records:
        scores = _scores(record)
        if scores.ndim == 2 and scores.shape[1] > 1:
            floors.append(noise_floor(scores[:, 0], scores[:, 1]).floor)
    return float(np.mean(floors)) if floors else None


def _rules(records: Sequence[Record]) -> dict[str, Any]:
    """Return what all arms of a table share; empty if no cell was played."""
    if not records:
        return {}
    first = records[0]
    shared = {name: first["rules"][name] for name in ("env", "data", "model", "horizon", "feedback", "temperature")}
    windows = [record["rules"].get("context_window", 0) for record in records if not record["arm"].startswith(WHOLE)]
    return shared | {
        "context_window": windows[0] if windows else 0,
        "dtype": first["rules"].get("dtype", "auto"),
        "scenarios": first["scenarios"]["count"],
        "checksum": first["scenarios"]["checksum"],
        "evaluation_seeds": len(first["evaluation_seeds"]),
    }
