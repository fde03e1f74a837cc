"""Alarms where people look: under the live table, on the standard error, in the picture of the curve."""

from __future__ import annotations

import io

import numpy as np
from matplotlib.image import imread
from rich.console import Console

from baselines.curve import draw_curve
from baselines.progress import SHOWN_ALARMS, TrainingTable
from marft_agents.health import Alarm

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


def test_where_nobody_watches_an_alarm_is_one_line_and_a_healthy_run_silent():
    log = io.StringIO()
    with TrainingTable(9, ["solver_0"], Console(file=log, width=40)) as table:
        table.add(0, METRICS)
        assert log.getvalue() == ""
        table.alarm(alarm(6))
    assert log.getvalue() == "update 7: lazy of solver_0: 100% of the actions are empty [sic]\n"


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
