"""The table of `make bench-judge`: medians of rounds, and ratios to the subprocess of the same round."""

from rich.console import Console

from baselines.benchmarks.judge import Row, table


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
