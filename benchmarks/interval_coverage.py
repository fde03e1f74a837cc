"""Simulate experiments without an effect and count how often the 95 % intervals cover 0.

    python -m benchmarks.interval_coverage [--grids 2000] [--json FILE]

A simulated experiment compares two arms on N scenarios with S training seeds each. The score of a trained team on a
scenario is 1 with probability

    sigmoid(u[arm, seed] + v[arm, scenario] + b[scenario]),   else 0

u is the training seed's effect, v the arm's on a scenario, b the difficulty of the scenario (sd 1.5), all normal on the
logit scale. Both arms draw u and v from the same distribution, so the true difference is exactly 0. A right interval
covers it in 95 % of the experiments. With `collapse`, a training run fails with that probability and loses 3 logits.

Compared are `statistics.paired_difference` and the percentile intervals of two bootstraps: over seeds and scenarios,
and the naive one over all cells as if they were independent.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from baselines.experiment.source_commit import source_commit
from baselines.results.statistics import naive_bootstrap, paired_cluster_bootstrap, paired_difference, wilson

DIFFICULTY_SD = 1.5  # logits
COLLAPSE = 3.0  # logits that a failed training run loses
RESAMPLES = 500  # of each bootstrap in the simulation
SCHEMA = "marft.coverage/1"


@dataclass(frozen=True)
class Design:
    """Design of a simulated experiment.

    Attributes:
        seeds: Number of training seeds of each arm.
        scenarios: Number of scenarios.
        seed_sd: Standard deviation between training seeds, in logits.
        scenario_sd: Standard deviation of an arm's effect on single scenarios, in logits.
        collapse: Probability that a training run fails and loses 3 logits.
    """

    seeds: int
    scenarios: int
    seed_sd: float
    scenario_sd: float
    collapse: float = 0.0

    def draw(self, generator: np.random.Generator) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Draw the scores of both arms, float64 [seeds, scenarios] of 0 and 1."""
        difficulty = generator.normal(0, DIFFICULTY_SD, self.scenarios)
        first, second = (self._arm(generator, difficulty) for _ in range(2))
        return first, second

    def _arm(self, generator: np.random.Generator, difficulty: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        skill = generator.normal(0, self.seed_sd, self.seeds) - COLLAPSE * (
            generator.random(self.seeds) < self.collapse
        )
        liking = generator.normal(0, self.scenario_sd, self.scenarios)
        logits = skill[:, None] + liking + difficulty  # [seeds, scenarios]
        return (generator.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(np.float64)


DESIGNS = (
    *(Design(5, 400, sd, 0.5) for sd in (0.1, 0.3, 0.6)),
    *(Design(3, 200, sd, 0.5) for sd in (0.1, 0.3, 0.6)),
    *(Design(10, 100, sd, 0.5) for sd in (0.1, 0.3, 0.6)),
    Design(5, 400, 0.3, 0.0),
    Design(5, 400, 0.0, 0.5),
    Design(2, 400, 0.3, 0.5),
    Design(5, 400, 0.3, 0.5, collapse=0.1),
)


@dataclass(frozen=True)
class Row:
    """Outcome of one design.

    Attributes:
        design: The simulated design.
        seed_points: Standard deviation of an arm's mean score over training seeds, in points.
        half_width: Median half-width of the interval of `paired_difference`, in points.
        ours: Share of experiments whose interval of `paired_difference` covers 0.
        cluster_bootstrap: The same share for the percentile bootstrap over seeds and scenarios.
        naive_bootstrap: The same share for the bootstrap over all cells.
    """

    design: Design
    seed_points: float
    half_width: float
    ours: float
    cluster_bootstrap: float
    naive_bootstrap: float


def simulate(design: Design, grids: int, *, seed: int = 0, resamples: int = RESAMPLES) -> Row:
    """Simulate experiments of one design.

    Args:
        design: Design of the experiments.
        grids: Number of experiments.
        seed: Seed of the simulation; each experiment has a generator of its own.
        resamples: Number of resamples of each bootstrap.
    """
    covered = np.zeros(3)
    halves, spreads = [], []
    for grid in range(grids):
        generator = np.random.default_rng(np.random.SeedSequence([seed, grid]))
        a, b = design.draw(generator)
        found = paired_difference(a, b)
        cluster = paired_cluster_bootstrap(a, b, generator, resamples=resamples)
        naive = naive_bootstrap(a, b, generator, resamples=resamples)
        covered += [one.low <= 0 <= one.high for one in (found, cluster, naive)]
        halves.append(found.high - found.mean)
        spreads.append(a.mean(axis=1).var(ddof=1))
    points = 100 * math.sqrt(float(np.mean(spreads)))
    shares = (covered / grids).tolist()
    return Row(design, round(points, 2), round(100 * float(np.median(halves)), 2), *shares)


def record(
    rows: Sequence[Row], grids: int, arguments: Sequence[str], commit: str | None, seconds: float
) -> dict[str, Any]:
    """Return the simulation as JSON-serialisable record."""
    return {
        "schema": SCHEMA,
        "command": " ".join(["python -m benchmarks.interval_coverage", *arguments]),
        "commit": commit,
        "grids": grids,
        "resamples": RESAMPLES,
        "cpu_seconds": round(seconds, 1),
        "rows": [asdict(row) for row in rows],
    }


def table(rows: Sequence[Row], grids: int) -> list[list[str]]:
    """Return the cells of the table, first its heading with the 95 % error of a coverage."""
    error = max(wilson(0.95, grids).high - 0.95, 0.95 - wilson(0.95, grids).low)
    heading = [
        *("training seeds", "scenarios", "seed sd (logits)", "seed sd (points)", "scenario sd (logits)", "half-width"),
        *(f"paired_difference (± {100 * error:.1f})", "cluster bootstrap", "naive bootstrap"),
    ]
    lines = []
    for row in rows:
        design = row.design
        failing = f", {design.collapse:.0%} collapse" if design.collapse else ""
        lines.append(
            [
                *(str(design.seeds), str(design.scenarios), f"{design.seed_sd:g}{failing}", f"{row.seed_points:.1f}"),
                *(f"{design.scenario_sd:g}", f"{row.half_width:.1f}"),
                *(f"{share:.1%}" for share in (row.ours, row.cluster_bootstrap, row.naive_bootstrap)),
            ]
        )
    return [heading, *lines]


def markdown(cells: Sequence[Sequence[str]]) -> str:
    """Return the table as Markdown."""
    heading, *lines = ["| " + " | ".join(line) + " |" for line in cells]
    return "\n".join([heading, "|" + "---:|" * len(cells[0]), *lines])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the simulation from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.interval_coverage", description=str(__doc__).split("\n")[0]
    )
    parser.add_argument("--grids", type=int, default=2000, help="simulated experiments of each design (default: 2000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the record to a file")
    given = list(sys.argv[1:] if arguments is None else arguments)
    parsed = parser.parse_args(given)
    if parsed.grids < 1:
        parser.error(f"--grids {parsed.grids}: wanted >= 1")
    started, commit = time.process_time(), source_commit() or None
    rows: list[Row] = []
    for design in DESIGNS:
        rows.append(simulate(design, parsed.grids, seed=len(rows)))
        print(f"{len(rows)} of {len(DESIGNS)} designs", file=sys.stderr, flush=True)
    found = table(rows, parsed.grids)
    if parsed.json is not None:
        from marft_agents.runs.run_folder import write_json

        write_json(parsed.json, record(rows, parsed.grids, given, commit, time.process_time() - started))
    print(markdown(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
