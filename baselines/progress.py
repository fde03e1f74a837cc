"""What long work shows on a terminal; elsewhere only alarms."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from marft_agents.health import Alarm

SHOWN_UPDATES = 12
SHOWN_ALARMS = 4


class TrainingTable:
    """A live table of the last updates and alarms, as a context manager.

    Args:
        updates: length of the run.
        policies: names of the trained policies, for their entropy and KL.
        console: where to show it; the standard error by default.
    """

    def __init__(self, updates: int, policies: list[str], console: Console | None = None) -> None:
        self.updates = updates
        self.policies = policies
        self.console = console or Console(stderr=True)
        self.rows: deque[tuple[str, ...]] = deque(maxlen=SHOWN_UPDATES)
        self.alarms: deque[Alarm] = deque(maxlen=SHOWN_ALARMS)
        self.started = time.perf_counter()
        self.done = 0
        self.live = Live(self._table(), console=self.console, auto_refresh=False, transient=False)

    def __enter__(self) -> TrainingTable:
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.console.is_terminal:
            self.live.stop()

    def add(self, update: int, metrics: Mapping[str, float]) -> None:
        """Show one more update."""
        self.done += 1
        seconds = metrics["seconds/rollout"] + metrics["seconds/update"]
        row = [f"{update + 1}/{self.updates}", f"{metrics['team/success']:.3f}", f"{metrics['team/return']:.3f}"]
        for policy in self.policies:
            row += [_cell(metrics, f"{policy}/entropy"), _cell(metrics, f"{policy}/kl")]
        row += [_cell(metrics, "critic/explained_variance"), f"{seconds:.1f} s", self._left(update)]
        self.rows.append(tuple(row))
        if self.console.is_terminal:
            self.live.update(self._table(), refresh=True)

    def alarm(self, alarm: Alarm) -> None:
        """Show an alarm under the table, or on a line of its own where there is none."""
        self.alarms.append(alarm)
        if self.console.is_terminal:
            self.live.update(self._table(), refresh=True)
        else:
            self.console.print(str(alarm), markup=False, highlight=False, soft_wrap=True)

    def _left(self, update: int) -> str:
        per_update = (time.perf_counter() - self.started) / self.done
        return f"{per_update * (self.updates - update - 1) / 60:.1f} min"

    def _table(self) -> Group:
        table = Table("update", "success", "return", title="training (shared team reward)")
        for policy in self.policies:
            table.add_column(f"{policy}\nentropy")
            table.add_column("KL")
        for name in ("critic EV", "time", "left"):
            table.add_column(name)
        for row in self.rows:
            table.add_row(*row)
        return Group(table, *(Text(str(alarm), style="bold red") for alarm in self.alarms))


def _cell(metrics: Mapping[str, float], name: str) -> str:
    return f"{metrics[name]:.3f}" if name in metrics else "-"


def bar(description: str, total: int, console: Console | None = None) -> tuple[Progress, TaskID]:
    """Return a progress bar (a context manager) and its task; it shows nothing where nobody watches."""
    console = console or Console(stderr=True)
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    return progress, progress.add_task(description, total=total)
