"""`marft sandbox agree`: compare the judge's verdicts on right and wrong solutions with the stated verdicts."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from baselines.cli.terminal import say
from baselines.results.visible_console import console
from marft_envs.sandbox import Judge, Judgement, Submission
from marft_envs.sandbox.image import DEFAULT_IMAGE
from marft_envs.sandbox.judge import ISOLATING
from marft_envs.tasks.code.labelled_solutions import Solution, load_solutions
from marft_envs.tasks.code.problem import Problem

_WALL_S = 60.0  # generous: a busy machine must not change a verdict


class JudgedSolution(NamedTuple):
    """A solution with the judge's verdict."""

    solution: Solution
    judgement: Judgement

    @property
    def agrees(self) -> bool:
        """True if the judge's verdict agrees with the stated one."""
        return self.solution.agrees(self.judgement.verdict)

    def describe(self) -> str:
        """Return one line: solution, stated and found verdict, and the deciding test."""
        solution, found = self.solution, self.judgement
        reason = "all tests pass"
        for place, test in enumerate(found.tests):
            if test.verdict == found.verdict != "OK":  # the first test with the verdict decided it
                reason = f"test {place}: {test.reason}"
                break
        said = found.compile_output or (reason if found.tests else str(dict(found.details)))
        return f"{solution.problem}, {solution.language} ({solution.where}): stated {solution.stated}, found " + (
            f"{found.verdict}; {said}"
        )


def add_action(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `marft sandbox agree`."""
    agree = actions.add_parser("agree", help="compare the judge's verdicts with those that data sets state")
    agree.add_argument(
        "data",
        nargs="*",
        default=["embedded"],
        metavar="DATA",
        help="embedded, hub:OWNER/NAME or files that bring solutions (default: embedded)",
    )
    agree.add_argument("--split", action="append", help="of the data; may be repeated (default: train and test)")
    agree.add_argument(
        "--solutions", type=Path, metavar="FILE", help="solutions of DATA: problem, language, verdict, source"
    )
    agree.add_argument("--backend", default="auto", choices=("auto", *ISOLATING), help="(default: %(default)s)")
    agree.add_argument("--image", default=DEFAULT_IMAGE, help="of the Docker backend (default: %(default)s)")
    agree.add_argument("--json", action="store_true", help="counts as JSON")
    agree.set_defaults(run=agree_with)


def agree_with(arguments: argparse.Namespace) -> int:
    """Run `marft sandbox agree`; return 0 if all verdicts agree with the stated ones, else 1."""
    counts: Counter[tuple[str, str, str, str]] = Counter()
    left_out: Counter[str] = Counter()
    disagreements: list[str] = []
    with Judge(arguments.backend, image=arguments.image) as judge:
        for data in arguments.data:
            own_splits = ("train", "test") if data.startswith("embedded") else ("train",)  # files have one split
            for split in arguments.split or own_splits:
                solved = load_solutions(data, split, arguments.solutions)
                left_out.update(solved.left_out)
                for outcome in compare(judge, solved.cases):
                    name = data if data.startswith(("embedded", "hub:")) else Path(data).name
                    found = str(outcome.judgement.verdict)
                    counts[name, outcome.solution.language, outcome.solution.stated, found] += 1
                    if not outcome.agrees:
                        disagreements.append(outcome.describe())
        backend = judge.backend
    if arguments.json:
        rows = []
        for (data, language, stated, found), count in sorted(counts.items()):
            rows.append({"data": data, "language": language, "stated": stated, "found": found, "count": count})
        say(
            json.dumps(
                {"backend": backend, "rows": rows, "left_out": left_out, "disagreements": disagreements}, indent=1
            )
        )
    else:
        console().print(confusion_table(counts, backend))
        for reason, count in left_out.items():
            say(f"{count} solutions left out: {reason}")
        for line in (f"{len(disagreements)} of {sum(counts.values())} verdicts differ", *disagreements):
            say(line)
    return 1 if disagreements else 0


def compare(judge: Judge, cases: Sequence[tuple[Problem, Solution]]) -> list[JudgedSolution]:
    """Judge solutions: those stated as OK on all tests, others up to the first failed test."""
    submissions = []
    for problem, solution in cases:
        source = problem.complete(solution.source)
        limits = replace(problem.limits, wall_s=_WALL_S + 3 * problem.limits.cpu_s)
        # A solution that is said to fail needs one failed test; one said to be right needs them all.
        stop = solution.stated != "OK"
        tests, checker = problem.all_tests, problem.checker
        submissions.append(Submission(source, solution.language, tests, limits, checker, stop_on_failure=stop))
    judged = zip(cases, judge.run_many(submissions), strict=True)
    return [JudgedSolution(solution, judgement) for (_, solution), judgement in judged]


def confusion_table(counts: Counter[tuple[str, str, str, str]], backend: str) -> Table:
    """Return a table of the counts by (data, language, stated, found), with a column per found verdict."""
    verdicts = sorted({found for *_, found in counts})
    table = Table("data", "language", "stated", *verdicts, title=f"verdicts of {backend}", title_justify="left")
    for key in sorted({key[:3] for key in counts}):
        table.add_row(*key, *(str(counts[*key, verdict] or "") for verdict in verdicts))
    return table
