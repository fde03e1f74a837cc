"""Tables of a benchmark from its records alone, see `baselines.cli.bench_table`.

One table per task, worst row first. Success has its 95 % interval over training seeds and scenarios. Differences are
paired over both and their p-values adjusted by Holm over the rows of the table (`baselines.results.statistics`).
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table as TerminalTable

from baselines.experiment import record_shapes
from baselines.results import visible_console
from baselines.results.statistics import grid_mean, holm, noise_floor, paired_difference, wilson
from marft_common.atomic_files import replacing

CELL_SCHEMA = "marft.bench.cell/1"
RECORDS_SCHEMA = "marft.bench.records/1"
TEAM, REFERENCE = "team", "solo@tokens"
WHOLE = "solo@whole"  # the one arm with a window of its own
START, END = "<!-- tables of marft bench: start -->", "<!-- tables of marft bench: end -->"
TERMINAL_WIDTH = 200  # characters, where the output is not a terminal
Scores = npt.NDArray[np.float64]
Record = Mapping[str, Any]


class RecordsError(ValueError):
    """Records that cannot be in one table; names the file, the value found and the value wanted."""


@dataclass(frozen=True)
class ArmRow:
    """One arm of a table; numbers are means over training seeds unless they say otherwise.

    Attributes:
        arm: Name of the arm.
        team: Team that plays, or that the one agent is matched to.
        algorithm: Algorithm of the training; empty for the untrained team.
        seeds: Training seeds; 0 for the untrained team.
        success: Mean and 95 % interval.
        difference: Paired difference to the reference with its 95 % interval; None for the reference itself.
        p_value: Of the difference, adjusted over the rows of the table.
        detectable: Minimum detectable effect of the difference at 80 % power.
        training_tokens: Generated tokens of a training.
        updates: Updates of a training.
        episodes: Episodes of a training.
        output_tokens: Generated tokens per answer.
        ideal_cache_tokens: Tokens per answer that an ideal KV cache computes.
        critical_path_tokens: Output tokens per answer that must follow each other.
        seconds: Training and evaluation of all seeds.
        failures: Failed episodes of all seeds.
        cap_hit_share: Share of actions that the token limit cut.
        note: Number of samples of a vote, or failed cells.
        coordination_gap: Success of the one agent with all tools minus that of a team whose agents have different
            tools, paired, with its 95 % interval; None for other teams and arms.
    """

    arm: str
    team: str
    algorithm: str
    seeds: int
    success: tuple[float, float, float]
    difference: tuple[float, float, float] | None
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
    """

    task: str
    reference: str
    rules: Mapping[str, Any]
    rows: tuple[ArmRow, ...]
    noise_floor: float | None
    failed: tuple[str, ...]
    commits: tuple[str, ...]
    commands: tuple[str, ...]


def read_records(places: Iterable[Path]) -> list[Record]:
    """Read the cells of result folders and of exported files.

    Raises:
        RecordsError: A place holds none, a file is no record, or two records are of one cell.
    """
    found: dict[tuple[str, str], Record] = {}
    for place in places:
        files = [] if place.is_file() else sorted(place.glob("cells/*.json"))
        records = _read_export(place) if place.is_file() else [(str(file), _read_json(file)) for file in files]
        if not records:
            raise RecordsError(f"{place} holds no records: wanted a folder of marft bench with cells/, or an export")
        for where, record in records:
            if isinstance(record, dict) and record.get("schema") != CELL_SCHEMA:
                raise RecordsError(f"{where}: found the schema {record.get('schema')!r}, wanted {CELL_SCHEMA!r}")
            if (wrong := record_shapes.mismatch(record, record_shapes.cell)) is not None:
                raise RecordsError(f"{where}: {wrong}")
            key = record["plan_checksum"], record["cell"]
            if key in found:
                raise RecordsError(f"{place}: the cell {record['cell']!r} of plan {record['plan']!r} is there twice")
            found[key] = record
    return list(found.values())


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RecordsError(f"{file} is no record: {error}") from error


def _read_export(file: Path) -> list[tuple[str, Record]]:
    """Return the place and the record of each cell."""
    content = _read_json(file)
    if not isinstance(content, Mapping) or content.get("schema") != RECORDS_SCHEMA:
        raise RecordsError(f"{file} is no export of records: wanted the schema {RECORDS_SCHEMA!r}")
    if (wrong := record_shapes.mismatch(content, record_shapes.EXPORT)) is not None:
        raise RecordsError(f"{file}: {wrong}")
    found = []
    for number, record in enumerate(content["cells"]):
        played = record.get("scenarios")
        checksum = played.get("checksum") if isinstance(played, dict) else None
        cohorts = content["cohorts"].get(checksum) if isinstance(checksum, str) else None
        found.append((f"{file}: cells[{number}]", record | {"cohorts": cohorts}))
    return found


def export(records: Sequence[Record], file: Path) -> None:
    """Write records as one small file, with the cohorts of each list of scenarios once and a cell a line."""
    cohorts, cells = {}, []
    for record in records:
        if record["failure"] is None:
            cohorts[record["scenarios"]["checksum"]] = record["cohorts"]
        cell = {name: value for name, value in record.items() if name != "cohorts"}
        cells.append(json.dumps(cell, separators=(",", ":")))
    head = f'{{"schema": {json.dumps(RECORDS_SCHEMA)},\n"cohorts": {json.dumps(cohorts)},\n"cells": [\n'
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as part:
        part.write_text(head + ",\n".join(cells) + "\n]}\n", encoding="utf-8")


# ------------------------------------------------------------------ numbers


def tables_of(records: Sequence[Record], reference: str = REFERENCE) -> list[TaskTable]:
    """Compute the table of every task.

    Args:
        records: Cells of one or more plans.
        reference: Arm that the others of the same team are compared with.

    Raises:
        RecordsError: Cells of one task differ in their scenarios, model or dtype.
    """
    by_task: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_task[record["task"]].append(record)
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
    groups: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for record in sorted(played, key=lambda record: record["training_seed"] or 0):
        groups[record["arm"], record["team"], record["algorithm"]].append(record)
    rows = _adjusted([_row(key, found, _reference_of(key, groups, reference)) for key, found in groups.items()])
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
    )


def _reference_of(
    key: tuple[str, str, str], groups: Mapping[tuple[str, str, str], Sequence[Record]], reference: str
) -> Sequence[Record]:
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


def _row(key: tuple[str, str, str], records: Sequence[Record], reference: Sequence[Record]) -> ArmRow:
    arm, team, algorithm = key
    difference = None if reference is records or not reference else _difference(records, reference)
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
        p_value=None if difference is None else difference.p_value,
        detectable=None if difference is None else difference.detectable,
        training_tokens=_mean(column("training_tokens")),
        updates=_mean([record.get("training_updates") for record in records]),  # older records do not say
        episodes=_mean([record.get("training_episodes") for record in records]),
        output_tokens=float(np.mean(column("output_tokens_per_answer"))),
        ideal_cache_tokens=_per_answer([each["team"]["ideal_cache_tokens"] for each in evaluation], column("answers")),
        critical_path_tokens=_per_answer([each["critical_path_tokens"] for each in evaluation], column("answers")),
        seconds=sum(record["seconds"] + (record["training_seconds"] or 0.0) for record in records),
        failures=sum(column("failed_episodes")),
        cap_hit_share=float(np.mean(column("cap_hit_share"))),
        note=f"{', '.join(map(str, votes))} samples" if votes else "",
        coordination_gap=gap,
    )


def _success(scores: Scores) -> tuple[float, float, float]:
    """Return the mean with its interval over seeds and scenarios; Wilson's for one seed, or where nothing varies."""
    found = grid_mean(scores)
    if len(scores) == 1 or found.low == found.high:
        found = wilson(found.mean, int((~np.isnan(scores)).any(axis=0).sum()))
    return found.mean, found.low, found.high


def _difference(records: Sequence[Record], reference: Sequence[Record]) -> Any:
    """Compare two arms on the training seeds that both have; an untrained team is compared with every seed."""
    seeds = [record["training_seed"] for record in records]
    others = [record["training_seed"] for record in reference]
    if None in seeds or None in others:
        return paired_difference(grid(reference), grid(records))
    of_seed = {record["training_seed"]: record for record in reference}
    pairs = [(of_seed[record["training_seed"]], record) for record in records if record["training_seed"] in of_seed]
    if not pairs:
        return None
    ours, theirs = [record for _, record in pairs], [other for other, _ in pairs]
    return paired_difference(grid(theirs), grid(ours))


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


# ------------------------------------------------------------------ text

COLUMNS = (
    "arm",
    "team",
    "algorithm",
    "seeds",
    "success [95 %]",
    "difference [95 %]",
    "Holm p",
    "MDE",
    "training tokens",
    "updates",
    "episodes",
    "output tokens",
    "ideal-cache tokens",
    "critical path",
    "seconds",
    "failed",
    "cap hit",
)


IN_FILES_ONLY = ("seeds", "MDE", "episodes", "ideal-cache tokens")  # columns for which a terminal has no room


NEWER = ("updates", "episodes")  # columns that are left out where no record of a table has them


def columns_of(table: TaskTable) -> list[str]:
    """Return the columns of a table in files."""
    unknown = {name for name in NEWER if all(getattr(row, name) is None for row in table.rows)}
    return [name for name in COLUMNS if name not in unknown]


def cells_of_row(row: ArmRow) -> list[str]:
    """Return the texts of a row, in the order of `COLUMNS`."""
    return [
        row.arm + (f" ({row.note})" if row.note else ""),
        row.team,
        row.algorithm or "-",
        str(row.seeds) if row.seeds else "-",
        _interval(row.success),
        "-" if row.difference is None else _interval(row.difference, sign=True),
        "-" if row.p_value is None else "<0.001" if row.p_value < 0.001 else f"{row.p_value:.3f}",
        _number(row.detectable, ".3f"),
        _number(row.training_tokens, ",.0f"),
        _number(row.updates, ",.1f"),
        _number(row.episodes, ",.0f"),
        f"{row.output_tokens:.1f}",
        _number(row.ideal_cache_tokens, ".1f"),
        _number(row.critical_path_tokens, ".1f"),
        f"{row.seconds:,.0f}",
        str(row.failures),
        f"{row.cap_hit_share:.1%}",
    ]


def _interval(values: tuple[float, float, float], *, sign: bool = False) -> str:
    form = "+.3f" if sign else ".3f"
    mean, low, high = (format(value, form) for value in values)
    return f"{mean} [{low}, {high}]"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None or math.isnan(value) else format(value, form)


def notes_of(table: TaskTable) -> list[str]:
    """Return the sentences under a table."""
    rules = table.rules
    said = []
    if rules:
        checksum = rules["checksum"].removeprefix("sha256:")[:12]
        model = rules["model"] + ("" if rules["dtype"] == "auto" else f" in {rules['dtype']}")
        window = rules["context_window"]
        held = f" Prompts and actions of at most {window} tokens, but of {WHOLE}." if window else ""
        said.append(
            f"All arms: {rules['scenarios']} test problems (list {checksum}), {rules['horizon']} "
            f"round{'s' * (rules['horizon'] != 1)}, feedback {rules['feedback']}, {rules['evaluation_seeds']} sampling "
            f"seed{'s' * (rules['evaluation_seeds'] != 1)} at temperature {rules['temperature']}, {model}.{held}"
        )
    said.append(f"Difference: to {table.reference} of the same team, paired over training seeds and problems.")
    said += [
        f"Coordination gap of {row.team}, {row.algorithm} (one agent with all tools - team): "
        f"{_interval(row.coordination_gap, sign=True)}."
        for row in table.rows
        if row.coordination_gap is not None
    ]
    detectable = [row.detectable for row in table.rows if row.detectable is not None]
    if detectable:
        said.append(
            f"MDE, the smallest true difference found with 80 % power: {min(detectable):.3f} to {max(detectable):.3f}. "
            "Tokens but those of training are per answer."
        )
    if table.noise_floor is None:
        said.append("Noise floor: not measured, since there is one sampling seed.")
    else:
        said.append(f"Noise floor (the same team evaluated twice): {table.noise_floor:.3f}.")
    said += [f"Failed cell {line}" for line in table.failed]
    return said


def overview(tables: Sequence[TaskTable]) -> str:
    """Return success by task and arm as one Markdown table, the task on which the team is worst first.

    The last two columns are the difference of the team to the reference, and its minimum detectable effect.
    """
    arms = sorted({row.arm for table in tables for row in table.rows}, key=lambda arm: (arm != "team", arm))
    lines = []
    for table in tables:
        found = {(row.arm, row.team, row.algorithm): row for row in table.rows}
        for team, algorithm in dict.fromkeys((row.team, row.algorithm) for row in table.rows if row.algorithm):
            rows = [found.get((arm, team, algorithm)) or found.get((arm, team, "")) for arm in arms]
            cells = ["-" if row is None else _interval(row.success) for row in rows]
            first = next(row for row in rows if row is not None)  # the team, which `arms` names first
            cells.append("-" if first.difference is None else _interval(first.difference, sign=True))
            cells.append(_number(first.detectable, ".3f"))
            lines.append((first.success[0], f"| {table.task} | {team} | {algorithm} | {' | '.join(cells)} |"))
    columns = ["task", "team", "algorithm", *arms, f"{arms[0]} - {tables[0].reference}", "MDE"]
    head = ["### Success [95 %] of all tasks", "", f"| {' | '.join(columns)} |"]
    return "\n".join([*head, f"|{'---|' * 3}{'---:|' * (len(arms) + 2)}", *(line for _, line in sorted(lines))])


def markdown(tables: Sequence[TaskTable]) -> str:
    """Return the tables as Markdown, each with its commands and commits; above several of them an overview."""
    parts = [overview(tables)] if len(tables) > 1 else []
    for table in tables:
        lines = [f"### {table.task}", "", "```bash", *table.commands, "```", ""]
        columns = columns_of(table)
        lines += [f"| {' | '.join(columns)} |", f"|{'---|' * 3}{'---:|' * (len(columns) - 3)}"]
        for row in table.rows:
            cells = dict(zip(COLUMNS, cells_of_row(row), strict=True))
            lines.append(f"| {' | '.join(cells[name] for name in columns)} |")
        lines += ["", *(f"{line}\n" for line in notes_of(table))]
        lines.append(f"Commit {', '.join(commit or 'unknown' for commit in table.commits)}.")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def terminal(tables: Sequence[TaskTable]) -> str:
    """Return the tables for a terminal."""
    console = visible_console.console(width=TERMINAL_WIDTH, colours=False)
    with console.capture() as captured:
        for table in tables:
            columns = [name for name in columns_of(table) if name not in IN_FILES_ONLY]
            shown = TerminalTable(*columns, title=table.task)
            for row in table.rows:
                cells = dict(zip(COLUMNS, cells_of_row(row), strict=True))
                shown.add_row(*(cells[name] for name in columns))
            console.print(shown)
            for line in notes_of(table):
                console.print(line)
    return captured.get()


def to_json(tables: Sequence[TaskTable]) -> str:
    """Return the tables as JSON; NaN and infinities are null."""
    plain = json.loads(json.dumps([asdict(table) for table in tables]), parse_constant=lambda _: None)
    return json.dumps(plain, indent=1) + "\n"


def save_tables(places: Sequence[Path], out: Path, reference: str = REFERENCE) -> str:
    """Write table.md and table.json to a folder; return the tables for a terminal."""
    tables = tables_of(read_records(places), reference)
    (out / "table.md").write_text(markdown(tables), encoding="utf-8")
    (out / "table.json").write_text(to_json(tables), encoding="utf-8")
    return terminal(tables)


def fill_page(page: str, tables: str) -> str:
    """Replace the tables of a page, between its two marks.

    Raises:
        RecordsError: The page has no marks.
    """
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise RecordsError(f"the page has no place for tables: wanted the lines {START} and {END}")
    return f"{before}{START}\n\n{tables}\n{END}{after}"
