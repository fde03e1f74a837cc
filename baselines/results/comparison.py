"""Comparison of evaluations: find and read their records, check that they can be compared, paired differences.

The unit of a side is the training seed: one evaluation each. All evaluations must have played the same scenario list
under the same settings.
"""

from __future__ import annotations

import glob
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from baselines.experiment.cohorts import Cohort, Cohorts, Mask
from baselines.experiment.environments import current_id
from baselines.experiment.record_shapes import evaluation, mismatch
from baselines.results.statistics import PairedDifference, holm, paired_difference
from marft_agents.runs.run_folder import EVALUATION_FILE, checkpoints_in

SCHEMA = "marft.compare/1"  # of the JSON form
METRICS = ("success", "tokens", "violations", "leaks", "failures")

Grid = npt.NDArray[np.float64]


class ComparisonError(ValueError):
    """Evaluations that cannot be compared; the message names the file, what was found and what was wanted."""


# ------------------------------------------------------------------ evaluations


@dataclass(frozen=True)
class Evaluated:
    """One evaluation, read from its evaluation.json.

    Attributes:
        path: Path of its evaluation.json.
        record: Content of the file.
        grids: Float64 [scenarios, evaluation seeds] by metric; NaN for failed episodes. No entry where the evaluation
            does not record the metric.
    """

    path: Path
    record: Mapping[str, Any]
    grids: Mapping[str, Grid]

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that must agree, by the key of --allow-different."""
        record = self.record
        parts = [record.get("settings") or record.get("keywords") or {}, record.get("law") or {}]
        found = {"env": current_id(str(record.get("env") or "")), "max_turns": record.get("max_turns")}
        for part in [*parts, record.get("context") or {}]:
            found |= part
        grader = (record.get("versions") or {}).get("math-verify")
        return found | {"math-verify": grader}

    def means(self, metric: str) -> Grid | None:
        """Return the mean of each scenario over its evaluation seeds, float64 [scenarios]; None if not recorded."""
        grid = self.grids.get(metric)
        if grid is None:
            return None
        there = ~np.isnan(grid)
        counts = there.sum(axis=1)
        means: Grid = np.where(there, grid, 0.0).sum(axis=1) / np.maximum(counts, 1)
        means[counts == 0] = math.nan
        return means


def read_evaluation(path: Path) -> Evaluated:
    """Read an evaluation.json.

    Raises:
        ComparisonError: The file cannot be read or lacks what a comparison needs.
    """
    try:
        record = json.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise ComparisonError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ComparisonError(f"{path} is not JSON: {error}") from error
    if not isinstance(record, dict) or record.get("scores") is None:
        raise ComparisonError(f"{path} is no evaluation: it has no scores; `marft eval` writes one")
    names = {"success": "scores", "tokens": "tokens", "violations": "violation", "leaks": "leak"}
    grids = {metric: _grid(path, name, record[name]) for metric, name in names.items() if record.get(name) is not None}
    if (wrong := mismatch(record, evaluation)) is not None:
        raise ComparisonError(f"{path}: {wrong}")
    shape = grids["success"].shape
    grids["failures"] = np.isnan(grids["success"]).astype(np.float64)
    cohorts = record.get("cohorts", {})
    fitting = isinstance(cohorts, dict) and all(isinstance(v, list) and len(v) == shape[0] for v in cohorts.values())
    if any(grid.shape != shape for grid in grids.values()) or not fitting:
        raise ComparisonError(
            f"{path}: scores, tokens, violation, leak and cohorts: one row per scenario is wanted in each"
        )
    return Evaluated(path, record, grids)


def _grid(path: Path, name: str, rows: Any) -> Grid:
    try:
        grid = np.array([[math.nan if cell is None else cell for cell in row] for row in rows], np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ComparisonError(f"{path}: {name}: wanted a number or null per scenario and seed ({error})") from error
    if grid.ndim != 2 or not grid.size:
        raise ComparisonError(f"{path}: {name}: found the shape {grid.shape}, wanted [scenarios, seeds]")
    return grid


def find_evaluation(text: str) -> Path:
    """Return the evaluation.json of an evaluation, a run or a checkpoint.

    Of a run, its newest checkpoint counts (or the one after "@", as in RUN@best) and the newest evaluation of that
    checkpoint in a folder within the run.

    Raises:
        ComparisonError: There is none; the message has the command that makes one.
    """
    path = Path(text).expanduser()
    if path.is_file():
        return path
    if (path / EVALUATION_FILE).is_file():
        return path / EVALUATION_FILE
    base, sign, name = text.rpartition("@")
    run = Path(base if sign and not path.exists() else text).expanduser()
    name = name if sign and not path.exists() else ""
    if not run.is_dir():
        raise ComparisonError(f"{text}: there is no such evaluation, run or checkpoint")
    if (run / "state.json").is_file():  # a checkpoint, in RUN/checkpoints
        run, name = run.resolve().parent.parent, run.resolve().name
    if not (run / "config.json").is_file():
        raise ComparisonError(
            f"{text} is neither an evaluation ({EVALUATION_FILE}) nor a run (config.json) nor a checkpoint"
        )
    checkpoint = _checkpoint(run, name, text)
    found = [
        file
        for pattern in (f"*/{EVALUATION_FILE}", f"*/*/{EVALUATION_FILE}")
        for file in run.glob(pattern)
        if _is_of(file, checkpoint)
    ]
    if found:
        return max(found, key=lambda file: file.stat().st_mtime)
    env = _env_of(run / "config.json")
    raise ComparisonError(
        f"{text}: no evaluation of {checkpoint.name} lies in {run}; make one with the keywords of the environment: "
        f"marft eval --env {env} --checkpoint {run}@{checkpoint.name} "
        f"--out {run / ('evaluation-' + checkpoint.name)}"
    )


def _env_of(config: Path) -> str:
    try:
        told = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ComparisonError(f"{config} cannot be read: {error}") from error
    return str(told.get("env", "ID")) if isinstance(told, dict) else "ID"


def _checkpoint(run: Path, name: str, text: str) -> Path:
    folder = run / "checkpoints"
    there = [path for path in checkpoints_in(folder).values() if (path / "state.json").is_file()]
    if not there:
        raise ComparisonError(f"{text}: the run has no complete checkpoint in {folder}")
    found = (folder / name).resolve() if name else there[-1].resolve()
    if found.name not in {path.name for path in there}:
        raise ComparisonError(f"{text}: no checkpoint {name!r}; there are {', '.join(path.name for path in there)}")
    return found


def _is_of(file: Path, checkpoint: Path) -> bool:
    try:
        told = json.loads(file.read_text(encoding="utf-8")).get("checkpoint")
    except (OSError, ValueError, RecursionError, AttributeError):
        return False
    return isinstance(told, str) and Path(told).name == checkpoint.name


def read_side(texts: Sequence[str], name: str) -> list[Evaluated]:
    """Read the evaluations of one side.

    Args:
        texts: Paths, or patterns with * of several.
        name: "A" or "B", for messages.

    Raises:
        ComparisonError: There is none, or one file is named twice.
    """
    paths: list[Path] = []
    for text in texts:
        matching = sorted(glob.glob(text)) if glob.has_magic(text) and not os.path.lexists(text) else [text]
        if not matching:
            raise ComparisonError(f"side {name}: nothing matches {text!r}")
        paths += [find_evaluation(one) for one in matching]
    places = [path.resolve() for path in paths]
    twice = next((path for path in places if places.count(path) > 1), None)
    if twice is not None:
        raise ComparisonError(f"side {name}: {twice} is named twice; each training seed counts once")
    found = [read_evaluation(path) for path in paths]
    checkpoints = [one.record.get("checkpoint") for one in found if one.record.get("checkpoint") is not None]
    again = next((path for path in checkpoints if checkpoints.count(path) > 1), None)
    if again is not None:
        raise ComparisonError(
            f"side {name}: two evaluations of the checkpoint {again}; each training seed counts once: evaluate with "
            "--seeds 0,1,... instead"
        )
    return found


# ------------------------------------------------------------------ comparison


class CohortComparison(NamedTuple):
    """Comparison on all scenarios or on one cohort.

    Attributes:
        cohort: Name and value of the cohort; None for all scenarios.
        scenarios: Number of scenarios.
        a: Mean success of side A.
        b: Mean success of side B.
        difference: B - A.
        p_adjusted: Holm-adjusted over all cohort rows; unadjusted for all scenarios, the main hypothesis.
    """

    cohort: Cohort | None
    scenarios: int
    a: float
    b: float
    difference: PairedDifference
    p_adjusted: float


@dataclass(frozen=True)
class Comparison:
    """Two sides that can be compared.

    Attributes:
        a: Evaluations of side A, one per training seed; one for a fixed team.
        b: Evaluations of side B, likewise.
    """

    a: Sequence[Evaluated]
    b: Sequence[Evaluated]

    @property
    def cohorts(self) -> Cohorts:
        """Properties of the scenarios."""
        return Cohorts.of(self.a[0].record.get("cohorts", {}))

    def grid(self, side: str, metric: str) -> Grid | None:
        """Return float64 [training seeds, scenarios] of side "a" or "b"; None if an evaluation lacks the metric."""
        rows = [one.means(metric) for one in (self.a if side == "a" else self.b)]
        there = [row for row in rows if row is not None]
        return np.stack(there) if len(there) == len(rows) else None

    def difference(self, metric: str, cohort: Cohort | None = None) -> PairedDifference:
        """Compute B - A of a metric, on one cohort or on all scenarios.

        Raises:
            ComparisonError: The evaluations do not record the metric, or have no such cohort.
        """
        a, b = self.grid("a", metric), self.grid("b", metric)
        if a is None or b is None:
            raise ComparisonError(f"{metric}: not recorded by all evaluations; evaluate again to record it")
        chosen = self.chosen(cohort)
        return paired_difference(a[:, chosen], b[:, chosen])

    def chosen(self, cohort: Cohort | None) -> Mask:
        """Return which scenarios belong to a cohort, bool [scenarios]."""
        if cohort is None:
            return np.ones(len(self.a[0].grids["success"]), np.bool_)
        return self.cohorts.chosen(cohort)

    def rows(self) -> list[CohortComparison]:
        """Compare on all scenarios and on each cohort; cohorts with a single value are left out."""
        names = self.cohorts.rows()
        found = [self.difference("success", cohort) for cohort in names]
        adjusted = holm([one.p_value for one in found])
        whole = self.difference("success")
        rows = [(None, whole, whole.p_value), *zip(names, found, adjusted, strict=True)]
        return [self._row(cohort, difference, p_value) for cohort, difference, p_value in rows]

    def _row(self, cohort: Cohort | None, difference: PairedDifference, p_value: float) -> CohortComparison:
        chosen = self.chosen(cohort)
        a, b = (self._mean(side, "success", chosen) for side in "ab")
        return CohortComparison(cohort, int(chosen.sum()), a, b, difference, p_value)

    def _mean(self, side: str, metric: str, chosen: npt.NDArray[np.bool_] | None = None) -> float:
        grid = self.grid(side, metric)
        cells = np.empty(0) if grid is None else (grid if chosen is None else grid[:, chosen])
        there = cells[~np.isnan(cells)]
        return float(there.mean()) if len(there) else math.nan

    def totals(self) -> dict[str, dict[str, float]]:
        """Return the means of both sides by metric, and their failed episodes."""
        metrics = [metric for metric in METRICS if all(self.grid(side, metric) is not None for side in "ab")]
        means = {metric: {side: self._mean(side, metric) for side in "ab"} for metric in metrics}
        failed = {"a": self.a, "b": self.b}
        episodes = {side: float(sum(one.grids["failures"].sum() for one in found)) for side, found in failed.items()}
        return means | {"failed_episodes": episodes}


def compare(a: Sequence[Evaluated], b: Sequence[Evaluated], allow: Sequence[str] = ()) -> Comparison:
    """Check that evaluations can be compared, and return their comparison.

    Args:
        a: Evaluations of side A.
        b: Evaluations of side B.
        allow: Keys of settings that may differ, see `Evaluated.settings`.

    Raises:
        ComparisonError: They played other scenarios, or under other settings, or the numbers of training seeds differ.
    """
    first = a[0]
    known = set().union(*(one.settings for one in (*a, *b)))
    unknown = sorted(set(allow) - known)
    if unknown:
        raise ComparisonError(f"--allow-different {unknown[0]}: no such setting; there are {', '.join(sorted(known))}")
    for one in (*a, *b):
        checksum = one.record.get("scenario_checksum")
        if checksum is None:
            raise ComparisonError(f"{one.path} records no checksum of its scenarios; evaluate again to record it")
        if checksum != first.record.get("scenario_checksum") or len(one.grids["success"]) != len(
            first.grids["success"]
        ):
            raise ComparisonError(
                f"{first.path} and {one.path} played other scenarios (checksums "
                f"{first.record['scenario_checksum']} and {checksum}): play one list with `marft eval --scenarios FILE`"
            )
        ours, theirs = first.settings, one.settings
        differing = [key for key in sorted(known - set(allow)) if ours.get(key) != theirs.get(key)]
        if differing:
            values = "; ".join(f"{key} is {ours.get(key)!r} and {theirs.get(key)!r}" for key in differing)
            raise ComparisonError(
                f"{first.path} and {one.path} were made under different settings: {values}. Evaluate alike, or allow "
                f"it with --allow-different {','.join(differing)}"
            )
    if len(a) != len(b) and 1 not in (len(a), len(b)):
        raise ComparisonError(
            f"side A has {len(a)} evaluations and side B {len(b)}: wanted one per training seed, as many on both "
            "sides, or one on a side"
        )
    return Comparison(a, b)
