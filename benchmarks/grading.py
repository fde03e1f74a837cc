"""Accuracy and speed of the math grader, tier by tier: `python -m benchmarks.grading [--pairs FILE]`.

CPU time is that of this process (`process_time`), with cold caches: both answers are read anew for every pair.
The symbolic tier works in another process; its column shows wall time. A pairs file is JSONL with `gold`,
`candidate` (or `answer`), `equivalent`, and optionally `language`, `category`, `form` and `policy`. Rows with
`policy` true, or a `form` other than "answer", are left out. Without a file, pairs are generated.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from baselines.results.visible_console import console
from marft_envs.grading import grade_math
from marft_envs.grading.answer_parser import read
from marft_envs.grading.grade import decide, decide_bounded

NUM_RESPONSES = 2_000


class Pair(NamedTuple):
    """Pair of gold answer and candidate answer, labelled as equivalent or not."""

    gold: str
    answer: str
    equivalent: bool
    language: str


class Measurement(NamedTuple):
    """Result of one pair: deciding tier, correctness, and CPU time in milliseconds."""

    method: str
    right: bool
    cost_ms: float


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pairs", type=Path, help="labelled pairs (JSONL); generated ones without it")
    parser.add_argument("--repeats", type=int, default=3, help="best of so many timings of a pair (3)")
    parser.add_argument("--no-symbolic", action="store_true", help="leave the symbolic tier out")
    options = parser.parse_args(arguments)
    pairs = load_pairs(options.pairs) if options.pairs else list(generated_pairs())
    decide_bounded(r"\sqrt{2}", "1", "en")  # imports mpmath
    bounded = [measure(pair, options.repeats) for pair in pairs]
    shown = console()
    shown.print(cost_table(bounded))
    shown.print(accuracy_table(pairs, use_symbolic=not options.no_symbolic))
    shown.print(throughput_table(pairs, bounded))


def load_pairs(path: Path) -> list[Pair]:
    """Read labelled pairs from a JSONL file."""
    pairs = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        if not line.strip():
            continue
        row = json.loads(line)
        if row.get("policy") or row.get("form", "answer") != "answer":
            continue
        language = row.get("language") or ("zh" if row.get("category", "").startswith("zh") else "en")
        pairs.append(Pair(row["gold"], row.get("candidate", row.get("answer")), row["equivalent"], language))
    return pairs


def generated_pairs() -> Iterator[Pair]:
    """Generate answers in several notations, each paired with an equivalent and with a wrong answer."""
    for n in range(2, 42):
        half = Fraction(2 * n + 1, 2)
        yield from _styles(f"{n * 1234}", f"{n * 1234:,}", f"{n * 1234 + 1}")
        yield from _styles(rf"\frac{{{n}}}{{{n + 1}}}", f"{3 * n}/{3 * n + 3}", f"{n + 1}/{n}")
        yield from _styles(rf"{n}\frac{{1}}{{2}}", f"{float(half)}", f"{n}.51")
        yield from _styles(rf"{n}\sqrt{{3}}", rf"\sqrt{{{3 * n * n}}}", f"{n * 3**0.5:.4f}")
        yield from _styles(rf"\frac{{{n}\pi}}{{6}}", rf"{n}π/6", rf"\frac{{{n}\pi}}{{5}}")
        yield from _styles(f"(x+{n})(x-{n})", f"x^2-{n * n}", f"x^2+{n * n}")
        yield from _styles(rf"\left[{n},\infty\right)", rf"x\ge {n}", f"({n}, \\infty)")
        yield from _styles(f"({n}, -{n})", rf"\left({n},-{n}\right)", f"(-{n},{n})")
        yield from _styles(f"{n}, {n + 1}, {n + 2}", rf"\{{{n + 2},{n},{n + 1}\}}", f"{n}, {n + 1}")
        yield from _styles(rf"{n}\text{{ cm}}", f"{n}", rf"{n}\text{{ m}}")
        yield from _styles(rf"{n}\%", f"{n / 100}", f"{n * 100}")
        yield from _styles(f"y={n}x+1", f"{n}x-y+1=0", f"y={n}x-1")
        yield from _styles(f"{n}", f"{n}个", f"{n + 1}个", "zh")


def _styles(gold: str, same: str, different: str, language: str = "en") -> Iterator[Pair]:
    yield Pair(gold, same, True, language)
    yield Pair(gold, different, False, language)


def measure(pair: Pair, repeats: int) -> Measurement:
    """Decide a pair by the tiers that run in this process; cost is the best of `repeats` timings."""
    costs = []
    first, second = sorted((pair.gold.strip(), pair.answer.strip()))
    for _ in range(repeats):
        read.cache_clear()
        start = time.process_time_ns()
        if first == second:
            same, method = True, "string"
        else:
            verdict = decide_bounded(first, second, pair.language)
            same, method = bool(verdict.same), verdict.method
        costs.append((time.process_time_ns() - start) / 1e6)
    return Measurement(method, same == pair.equivalent, min(costs))


def cost_table(measurements: list[Measurement]) -> Table:
    """Tabulate CPU cost and accuracy of the bounded tiers."""
    table = Table(title="tiers 0-2, cold caches (undecided and limit count as not correct)")
    for column in ("tier", "pairs", "right", "CPU ms median", "mean", "p99", "max"):
        table.add_column(column, justify="left" if column == "tier" else "right")
    methods = [*sorted({item.method for item in measurements}), "all"]
    for method in methods:
        chosen = [item for item in measurements if method in (item.method, "all")]
        costs = sorted(item.cost_ms for item in chosen)
        table.add_row(
            method,
            str(len(chosen)),
            f"{sum(item.right for item in chosen) / len(chosen):.4f}",
            f"{statistics.median(costs):.3f}",
            f"{statistics.mean(costs):.3f}",
            f"{costs[int(0.99 * len(costs))]:.3f}",
            f"{costs[-1]:.3f}",
        )
    return table


def accuracy_table(pairs: list[Pair], use_symbolic: bool) -> Table:
    """Tabulate the accuracy of all tiers together."""
    missed = accepted = symbolic = 0
    slowest_ms = 0.0
    for pair in pairs:
        start = time.perf_counter()
        verdict = decide(pair.gold, pair.answer, pair.language, use_symbolic)
        if verdict.method in ("symbolic", "timeout"):
            symbolic += 1
            slowest_ms = max(slowest_ms, (time.perf_counter() - start) * 1e3)
        if pair.equivalent and not verdict.same:
            missed += 1
        elif verdict.same and not pair.equivalent:
            accepted += 1
    table = Table(title="whole cascade")
    for column in ("pairs", "accuracy", "false negatives", "false positives", "symbolic", "slowest ms (wall)"):
        table.add_column(column, justify="right")
    accuracy = 1 - (missed + accepted) / len(pairs)
    table.add_row(str(len(pairs)), f"{accuracy:.4f}", str(missed), str(accepted), str(symbolic), f"{slowest_ms:.0f}")
    return table


def throughput_table(pairs: list[Pair], measurements: list[Measurement]) -> Table:
    """Tabulate pairs per CPU second, and whole responses with an integer answer per CPU second."""
    response = "We add the numbers, step by step, and check. " * 20 + r"The answer is $\boxed{%d}$."
    start = time.process_time()
    for number in range(NUM_RESPONSES):
        grade_math(response % (number % 97), "42")
    seconds = time.process_time() - start
    table = Table(title="throughput per CPU second")
    table.add_column("pairs, cold", justify="right")
    table.add_column("whole easy responses", justify="right")
    total_s = sum(item.cost_ms for item in measurements) / 1e3
    table.add_row(f"{len(pairs) / total_s:,.0f}", f"{NUM_RESPONSES / seconds:,.0f}")
    return table


if __name__ == "__main__":
    main()
