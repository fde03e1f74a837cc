"""Read the records of a run, an evaluation, a benchmark or an attribution for a report.

Only records on disk are read: no environment is made and no model is loaded. Unknown fields are kept, so that a page
shows metrics and ledger entries that were added after this code was written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from baselines.experiment import record_shapes
from baselines.experiment.record_shapes import ATTRIBUTION_SCHEMA, Shape, mismatch
from baselines.report.episode_set import EpisodeSet, TextLimit
from baselines.results.bench_records import RECORDS_SCHEMA, RecordsError, read_records
from baselines.results.comparison import SCHEMA as COMPARISON_SCHEMA
from baselines.results.tables import TaskTable, tables_of
from marft_agents.runs.run_folder import EVALUATION_FILE

Kind = Literal["run", "evaluation", "bench", "attribution"]
EPISODES = "episodes.jsonl"


class SourceError(ValueError):
    """A path that no report can be made of; says what was found and what was wanted."""


@dataclass(frozen=True)
class EvaluationRecord:
    """An evaluation.

    Attributes:
        label: Name on the page.
        file: Path of its evaluation.json.
        record: Content of the file.
    """

    label: str
    file: Path
    record: Mapping[str, Any]


@dataclass
class Source:
    """Records that one path holds; an empty part is missing on the page.

    Attributes:
        kind: Kind of the path.
        label: Name on the page.
        path: The folder or file.
        config: Content of a run's config.json.
        versions: Versions of the packages.
        metrics: Metrics of each update.
        alarms: Alarms in the order they were raised.
        evaluations: The evaluation, or those inside a run, oldest first.
        attributions: The attribution, or those inside a run, as (name, content).
        comparisons: Results of `marft compare --by agent --json FILE` inside a run.
        tables: Tables of a benchmark.
        episodes: Sets of episodes.
    """

    kind: Kind
    label: str
    path: Path
    config: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)
    metrics: Sequence[Mapping[str, Any]] = ()
    alarms: Sequence[Mapping[str, Any]] = ()
    evaluations: Sequence[EvaluationRecord] = ()
    attributions: Sequence[tuple[str, Mapping[str, Any]]] = ()
    comparisons: Sequence[Mapping[str, Any]] = ()
    tables: Sequence[TaskTable] = ()
    episodes: Sequence[EpisodeSet] = ()


def read_source(path: Path, limit: TextLimit | None = None, keep: int | None = None) -> Source:
    """Read what a path holds.

    Args:
        path: A run, an evaluation, a folder or exported file of `marft bench`, or an attribution.
        limit: Longest text of an episode that is kept.
        keep: Most episodes of each set; None keeps all.

    Raises:
        SourceError: The path holds none of them, or a file cannot be read.
    """
    kind = kind_of(path)
    if kind is None:
        found = f"a {'folder' if path.is_dir() else 'file'} without records" if path.exists() else "nothing"
        raise SourceError(
            f"{path}: found {found}, wanted a run of `marft train` (config.json), an evaluation "
            f"({EVALUATION_FILE}), a folder or export of `marft bench` (cells/), or a result of `marft attribute`"
        )
    limit = limit or TextLimit()
    if kind == "run":
        return _read_run(path, limit, keep)
    if kind == "evaluation":
        return _read_evaluation(path, limit, keep)
    label = path.resolve().name
    if kind == "bench":
        try:
            return Source(kind, label, path, tables=tables_of(read_records([path])))
        except RecordsError as error:
            raise SourceError(str(error)) from error
    file = path / "attribution.json" if path.is_dir() else path
    content = read_json(file, record_shapes.ATTRIBUTION)
    return Source(kind, label, path, versions=content.get("versions", {}), attributions=[(label, content)])


def kind_of(path: Path) -> Kind | None:
    """Return the kind of a path; None if it holds nothing that a report shows."""
    if path.is_file():
        schema = _schema(path)
        if path.name == EVALUATION_FILE:
            return "evaluation"
        return {RECORDS_SCHEMA: "bench", ATTRIBUTION_SCHEMA: "attribution"}.get(schema)  # type: ignore[return-value]
    if (path / EVALUATION_FILE).is_file():
        return "evaluation"
    if (path / "attribution.json").is_file() and not (path / "config.json").is_file():
        return "attribution"
    if (path / "config.json").is_file():
        return "run"
    return "bench" if next(path.glob("cells/*.json"), None) is not None else None


def _schema(file: Path) -> str:
    with file.open("rb") as stream:
        head = stream.read(1 << 12)
    return next((name for name in (RECORDS_SCHEMA, ATTRIBUTION_SCHEMA, COMPARISON_SCHEMA) if name.encode() in head), "")


def _read_run(path: Path, limit: TextLimit, keep: int | None) -> Source:
    files = [file for pattern in (f"*/{EVALUATION_FILE}", f"*/*/{EVALUATION_FILE}") for file in path.glob(pattern)]
    evaluations = sorted(
        map(_evaluation, files), key=lambda one: (one.record.get("checkpoint") is not None, one.file.stat().st_mtime)
    )
    results = sorted((*path.glob("*.json"), *path.glob("*/attribution.json")))
    attributions = [
        (file.stem if file.parent == path else file.parent.name, read_json(file, record_shapes.ATTRIBUTION))
        for file in results
        if _schema(file) == ATTRIBUTION_SCHEMA
    ]
    compared = [file for file in path.glob("*.json") if _schema(file) == COMPARISON_SCHEMA]
    versions = path / "versions.json"
    sets = [EpisodeSet("training", path / EPISODES, limit=limit, keep=keep)]
    sets += [_episodes_of(one, limit, keep) for one in evaluations]
    return Source(
        "run",
        path.resolve().name,
        path,
        config=read_json(path / "config.json", record_shapes.CONFIG),
        versions=read_json(versions, record_shapes.VERSIONS) if versions.is_file() else {},
        metrics=list(read_lines(path / "metrics.jsonl", record_shapes.metrics)),
        alarms=list(read_lines(path / "alarms.jsonl", record_shapes.ALARM)),
        evaluations=evaluations,
        attributions=attributions,
        comparisons=[read_json(file, record_shapes.COMPARISON) for file in compared],
        episodes=[one for one in sets if one.file.is_file()],
    )


def _read_evaluation(path: Path, limit: TextLimit, keep: int | None) -> Source:
    found = _evaluation(path if path.is_file() else path / EVALUATION_FILE)
    episodes = _episodes_of(found, limit, keep)
    return Source(
        "evaluation",
        found.label,
        path,
        versions=found.record.get("versions", {}),
        evaluations=[found],
        episodes=[episodes] if episodes.file.is_file() else [],
    )


def _evaluation(file: Path) -> EvaluationRecord:
    return EvaluationRecord(file.resolve().parent.name, file, read_json(file, record_shapes.evaluation))


def _episodes_of(one: EvaluationRecord, limit: TextLimit, keep: int | None) -> EpisodeSet:
    cohorts = one.record.get("cohorts") or {}
    return EpisodeSet(one.label, one.file.parent / EPISODES, cohorts, limit, keep)


def read_json(file: Path, shape: Shape) -> dict[str, Any]:
    """Read a JSON object.

    Args:
        file: File to read.
        shape: What a reader needs of it.

    Raises:
        SourceError: The file cannot be read or holds something else.
    """
    try:
        content = json.loads(file.read_bytes().decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SourceError(f"{file} cannot be read: {error}") from error
    if (wrong := mismatch(content, shape)) is not None:
        raise SourceError(f"{file}: {wrong}")
    return dict(content)


def read_lines(file: Path, shape: Shape) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file of JSON lines; a last line that is still being written is left out.

    Args:
        file: File to read.
        shape: What a reader needs of each line.

    Raises:
        SourceError: Another line is no such object.
    """
    if not file.is_file():
        return
    lines = file.read_bytes().split(b"\n")[:-1]
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise SourceError(f"{file}:{number} is not JSON: {error}") from error
        if (wrong := mismatch(record, shape)) is not None:
            raise SourceError(f"{file}:{number}: {wrong}")
        yield record
