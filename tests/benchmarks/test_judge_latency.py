"""The benchmarks of the judge: medians of rounds, ratios to the same round, and seconds to a verdict."""

import pytest
from rich.console import Console

from benchmarks import judge_latency
from benchmarks.judge import Row, table


def test_ratios_are_taken_within_a_round():
    walls = [("subprocess", 1.0), ("judge: landlock", 2.0), ("subprocess", 4.0), ("judge: landlock", 5.0)]
    rows = [
        Row(how, "c++17", 1, 100, wall_s, 0.5)
        for how, wall_s in [*walls, ("subprocess", 3.0), ("judge: landlock", 3.0)]
    ]
    console = Console(width=200)
    with console.capture() as text:
        console.print(table(rows))
    assert "judge: landlock" in text.get()
    line = next(line for line in text.get().splitlines() if "landlock" in line)
    assert "300" in line
    assert "33" in line
    assert "0.80 (0.50 to 1.00)" in line


@pytest.mark.long
def test_a_verdict_is_timed_both_ways_in_turn():
    rows = judge_latency.measure("landlock", "", rounds=2, tests=4)
    assert [(row.what, row.way) for row in rows] == [
        ("headers", "with"),
        ("headers", "without"),
        ("slots", "two"),
        ("slots", "one"),
    ] * 2
    assert all(0 < row.seconds < 60 for row in rows)


def test_no_program_is_built_twice():
    programs = [judge_latency.cpp(precompiled=True) for _ in range(3)] + [judge_latency.python() for _ in range(3)]
    assert len(set(programs)) == 6
    assert judge_latency.cpp(precompiled=True).startswith("#include <bits/stdc++.h>")
    assert not judge_latency.cpp(precompiled=False).startswith("#include")
