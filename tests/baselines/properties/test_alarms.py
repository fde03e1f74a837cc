"""Alarms where people look: under the live table, on the standard error, in the picture of the curve."""

from __future__ import annotations

import io
import re

import numpy as np
from matplotlib.image import imread
from rich.console import Console

from baselines.cli.progress import SHOWN_ALARMS, EpisodeCount, TrainingTable
from baselines.experiment.learning_curve import draw_curve
from marft_agents.monitoring.alarms import Alarm

METRICS = {"team/success": 0.5, "team/return": 0.5, "seconds/rollout": 1.0, "seconds/update": 1.0}


def alarm(update: int) -> Alarm:
    return Alarm(update, "solver_0", "lazy", "empty_share", 1.0, 0.95, "100% of the actions are empty [sic]")


def test_the_newest_alarms_stand_under_the_table():
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    with TrainingTable(9, ["solver_0"], console) as table:
        table.add(0, METRICS)
        for update in range(SHOWN_ALARMS + 1):
            table.alarm(alarm(update))
    shown = screen.getvalue().rpartition("training (shared team reward)")[2]
    assert [f"update {u + 1}: lazy of solver_0: 100% of the actions are empty [sic]" in shown for u in range(5)] == [
        False,
        *[True] * SHOWN_ALARMS,
    ]


def test_where_nobody_watches_an_update_and_an_alarm_are_a_line_each():
    log = io.StringIO()
    policy = {"solver_0/entropy": 1.23456, "solver_0/kl": 0.01}
    with TrainingTable(9, ["solver_0", "[b]"], Console(file=log, width=40)) as table:
        table.add(0, METRICS | policy | {"team/tokens": 5312.0})
        table.alarm(alarm(6))
    update, *rest = log.getvalue().splitlines()
    assert re.fullmatch(
        r"update 1/9: success 0\.500, return 0\.500, 5312 tokens; solver_0 entropy 1\.235 KL 0\.010; "
        r"\[b\] entropy - KL -; 2\.0 s, 0\.\d min left",
        update,
    )
    assert rest == ["update 7: lazy of solver_0: 100% of the actions are empty [sic]"]


def test_a_budget_of_tokens_is_shown_beside_the_updates():
    screen, log = io.StringIO(), io.StringIO()
    first = METRICS | {"tokens_total": 300.0, "team/output_tokens_sum": 200.0, "validation/success": 0.25}
    with TrainingTable(None, [], Console(file=screen, force_terminal=True, width=100), budget_tokens=1000) as table:
        table.add(4, METRICS | first)
    assert re.search(r"│ 5 +│ 0\.500 .*│ 0\.250 .* 300/1000 ", screen.getvalue())
    with TrainingTable(9, [], Console(file=log, width=40), budget_tokens=1000) as table:
        table.started -= 60  # 200 tokens a minute, 700 are left
        table.add(4, METRICS | first | {"validation/low": 0.1, "validation/high": 0.4})
    assert re.match(r"update 5/9, 300/1000 tokens: success .*; 2\.0 s, 3\.5 min left$", log.getvalue())


def test_held_out_success_is_shown_where_it_is_measured():
    held_out = METRICS | {"validation/success": 0.25, "validation/low": 0.1, "validation/high": 0.4}
    screen, log = io.StringIO(), io.StringIO()
    with TrainingTable(9, [], Console(file=screen, force_terminal=True, width=100)) as table:
        table.add(0, METRICS)
        before = screen.getvalue()
        table.add(1, held_out)
    assert "held-out" not in before
    assert "held-out" in screen.getvalue()
    assert "0.250" in screen.getvalue()
    with TrainingTable(9, [], Console(file=log, width=40)) as table:
        table.add(1, held_out)
    assert "held-out success 0.250 [0.100, 0.400]" in log.getvalue()


def test_the_first_update_with_mostly_cut_actions_gives_one_warning_with_the_flag():
    screen, log = io.StringIO(), io.StringIO()
    warning = "update 2: the limit of 16 tokens cut 75% of the actions: raise --max-new-tokens, "
    for file, terminal in ((screen, True), (log, False)):
        console = Console(file=file, force_terminal=terminal, width=160)
        with TrainingTable(9, ["solver_0"], console, max_new_tokens=16) as table:
            for update, share in enumerate((0.25, 0.75, 1.0)):
                table.add(update, METRICS | {"team/cap_hit_share": share})
    before, _, shown = screen.getvalue().rpartition("training (shared team reward)")
    assert re.search(r"KL\W.*\bcut\b.*critic EV", re.sub(r"\x1b\[[0-9;]*m", "", shown))
    assert re.search(r"│ 3/9 .*│ 1\.000 │", shown)
    assert shown.count(warning) == 1
    assert "0.250" in before
    first, second, told, third = log.getvalue().splitlines()
    assert told.startswith(warning)
    assert [", 25% of the actions cut;" in first, ", 75% of" in second, ", 100% of" in third] == [True] * 3


def test_where_nobody_watches_an_evaluation_tells_each_tenth_and_each_half_minute():
    log, now = io.StringIO(), iter([0, *range(1, 21), *range(60, 421, 40), *range(421, 431)])
    with EpisodeCount("[greedy]", 40, Console(file=log, width=20), clock=lambda: next(now)) as count:
        for _ in range(40):
            count.advance()
    lines = log.getvalue().splitlines()
    assert lines[0] == "[greedy]: 4/40 episodes, 0.6 min left"
    told = [int(re.search(r" (\d+)/40 ", line)[1]) for line in lines]
    assert told == [4, 8, 12, 16, 20, *range(21, 31), 32, 36, 40]


def test_on_a_terminal_an_evaluation_is_a_bar():
    screen = io.StringIO()
    with EpisodeCount("[greedy]", 3, Console(file=screen, force_terminal=True, width=100)) as count:
        count.advance()
        count.advance()
    assert "2/3" in screen.getvalue()
    assert "[greedy]" in screen.getvalue()
    assert "episodes" not in screen.getvalue()


def test_an_evaluation_tells_the_turns_of_games_that_have_not_ended():
    log, now = io.StringIO(), iter([0, 10, 31, 32, 33, 34, 35])
    with EpisodeCount("duo", 4, Console(file=log, width=20), clock=lambda: next(now), turns=2) as count:
        count.turn()
        count.turn()  # half a minute without a line
        count.turn()
        count.advance(turns=3)  # the other games will be as long
        count.turn()
        count.advance(turns=1)
    assert log.getvalue().splitlines() == [
        "duo: 0/4 episodes (2/8 turns)",  # no estimate before an episode has ended
        "duo: 1/4 episodes (3/12 turns), 1.6 min left",
        "duo: 2/4 episodes (4/8 turns), 0.6 min left",
    ]


def test_the_bar_of_an_evaluation_moves_with_each_turn():
    screen = io.StringIO()
    with EpisodeCount("duo", 2, Console(file=screen, force_terminal=True, width=100), turns=2) as count:
        count.turn()
        count.progress.refresh()
        shown = screen.getvalue()
        count.turn()
        count.advance(turns=2)
    assert "0/2 episodes" in shown
    assert "1/4" in shown
    assert "1/2 episodes" in screen.getvalue()
    assert "2/4" in screen.getvalue()


def test_the_live_table_is_there_before_the_first_update():
    screen = io.StringIO()
    with TrainingTable(3, ["a_0"], Console(file=screen, force_terminal=True, width=100)):
        assert "training (shared team reward)" in screen.getvalue()
        assert "success" in screen.getvalue()


def test_the_live_table_says_how_long_the_running_update_takes():
    now, screen = [0.0], io.StringIO()
    table = TrainingTable(2, [], Console(file=screen, width=100), clock=lambda: now[0])

    def shown():
        table.console.print(table._table())
        return screen.getvalue().splitlines()[-1]

    now[0] = 7.0
    assert shown() == "first update: 7 s so far"
    table.add(0, METRICS)
    now[0] = 12.0
    assert shown() == "update 2: 5 s so far, the last one took 7 s"
    table.add(1, METRICS)
    assert "so far" not in shown()


def red_pixels(path) -> int:
    red, green, blue = np.moveaxis(imread(path)[:, :, :3], 2, 0)
    return int(((red > 0.95) & (green < 0.05) & (blue < 0.05)).sum())


def test_the_curve_marks_where_an_alarm_began(tmp_path):
    flags = [0.0, 0.0, 1.0, 1.0, 0.0, 1.0]
    history = [METRICS | {"solver_0/alarm_lazy": flag, "solver_0/alarm_length": 0.0} for flag in flags]
    marked = red_pixels(draw_curve({"a": history}, tmp_path / "alarms.png"))
    once = red_pixels(draw_curve({"a": history[:5]}, tmp_path / "once.png"))
    healthy = red_pixels(draw_curve({"a": [METRICS] * 6}, tmp_path / "healthy.png"))
    assert marked > 1.5 * once > 0 == healthy
