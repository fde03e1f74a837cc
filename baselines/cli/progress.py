"""Progress display of training and evaluation: live on a terminal, as lines in a log or a pipe."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import TracebackType

from rich.console import Console, Group  # noqa: TID251 - a type here
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from baselines.cli.terminal import say
from baselines.experiment.progress import Ended, Event, Noted, Started, Updated
from baselines.results import visible_console
from marft_agents.metric_names import TOKENS_TOTAL, metric_prefix
from marft_agents.monitoring.alarms import Alarm
from marft_common.visible_text import visible

SHOWN_UPDATES = 12
SHOWN_ALARMS = 4
WIDEST = 10_000  # characters, more than a table of updates ever has
LEAST_SHARE = 0.05  # of the episodes or turns, before which no time left is told
LINE_EVERY_S = 30.0
MOSTLY_CUT = 0.5  # share of the actions that the token limit cut from which the limit is worth a warning


class TrainingTable:
    """Live table of the latest updates and alarms, as a context manager; one line per update without a terminal.

    Below it stands how long the update takes that runs, so that a long one is not taken for a halt.

    Args:
        updates: Number of updates of the run; None: as many as the budget takes.
        policies: Names of the trained policies, for their columns of entropy and KL.
        console: Console to write to; standard error by default.
        budget_tokens: Generated tokens that end the run; 0: no budget.
        max_new_tokens: Token limit of an action, for the warning about it.
        clock: Returns the time in seconds.
    """

    def __init__(
        self,
        updates: int | None,
        policies: list[str],
        console: Console | None = None,
        *,
        budget_tokens: int = 0,
        max_new_tokens: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock = clock
        self.updates, self.budget_tokens, self.max_new_tokens = updates, budget_tokens, max_new_tokens
        self.first_tokens = 0.0  # generated before the first update that is shown
        self.policies = {policy: metric_prefix(policy) for policy in policies}
        self.console = console or visible_console.console(error=True)
        self.rows: deque[tuple[str, ...]] = deque(maxlen=SHOWN_UPDATES)
        self.alarms: deque[Alarm] = deque(maxlen=SHOWN_ALARMS)
        self.started = self.begun = clock()  # the latter of the update that runs
        self.running = "first update"
        self.took = ""
        self.done = 0
        self.warning = ""  # about the token limit, from the first update in which it cuts most actions
        self.validated = False  # the column of held-out success appears with the first validation
        self.live = Live(console=self.console, refresh_per_second=1, get_renderable=self._table)

    def __enter__(self) -> TrainingTable:
        if self.console.is_terminal:
            self.live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.running = ""
        if self.console.is_terminal:
            self.live.stop()

    def add(self, update: int, metrics: Mapping[str, float]) -> None:
        """Show the metrics of one more update (0-based index)."""
        self.done += 1
        self.running = "" if update + 1 == self.updates else f"update {update + 2}"
        self.took = f", the last one took {self.clock() - self.begun:.0f} s"
        self.begun = self.clock()
        seconds = metrics["seconds/rollout"] + metrics["seconds/update"]
        if self.done == 1:
            self.first_tokens = metrics.get(TOKENS_TOTAL, 0.0) - metrics.get("team/output_tokens_sum", 0.0)
        row = [self._counted(update), f"{metrics['team/success']:.3f}", f"{metrics['team/return']:.3f}"]
        self.validated |= "validation/success" in metrics
        row.append(_cell(metrics, "validation/success"))
        for prefix in self.policies.values():
            row += [_cell(metrics, f"{prefix}/entropy"), _cell(metrics, f"{prefix}/kl")]
        row += [
            _cell(metrics, "team/cap_hit_share"),
            _cell(metrics, "critic/explained_variance"),
            f"{seconds:.1f} s",
            self._left(update, metrics),
        ]
        row += [self._spent(metrics)]
        self.rows.append(tuple(row))
        warning = "" if self.warning else self._about_limit(update, metrics)
        self.warning = self.warning or warning
        if self.console.is_terminal:
            self.live.refresh()
        else:
            _print_line(self.console, self._line(update, metrics, seconds))
            if warning:
                _print_line(self.console, warning)

    def _about_limit(self, update: int, metrics: Mapping[str, float]) -> str:
        """Return a warning if the token limit cut most actions of the update, else nothing."""
        share = metrics.get("team/cap_hit_share", 0.0)
        if share < MOSTLY_CUT:
            return ""
        return (
            f"update {update + 1}: the limit of {self.max_new_tokens} tokens cut {share:.0%} of the actions: raise "
            "--max-new-tokens, or have the profiles ask for short answers"
        )

    def _line(self, update: int, metrics: Mapping[str, float], seconds: float) -> str:
        """Return an update as one line of a log."""
        played = f"success {metrics['team/success']:.3f}, return {metrics['team/return']:.3f}"
        if "team/tokens" in metrics:
            played += f", {metrics['team/tokens']:.0f} tokens"
        if "team/cap_hit_share" in metrics:
            played += f", {metrics['team/cap_hit_share']:.0%} of the actions cut"
        parts = [played]
        if "validation/success" in metrics:
            low, high = metrics["validation/low"], metrics["validation/high"]
            parts.append(f"held-out success {metrics['validation/success']:.3f} [{low:.3f}, {high:.3f}]")
        for policy, prefix in self.policies.items():
            parts.append(f"{policy} entropy {_cell(metrics, f'{prefix}/entropy')} KL {_cell(metrics, f'{prefix}/kl')}")
        spent = f", {self._spent(metrics)} tokens" if self.budget_tokens else ""
        left = self._left(update, metrics)
        return f"update {self._counted(update)}{spent}: {'; '.join(parts)}; {seconds:.1f} s, {left} left"

    def _counted(self, update: int) -> str:
        return f"{update + 1}" if self.updates is None else f"{update + 1}/{self.updates}"

    def _spent(self, metrics: Mapping[str, float]) -> str:
        """Return the tokens generated so far, of the budget."""
        return f"{metrics.get(TOKENS_TOTAL, 0.0):.0f}/{self.budget_tokens}"

    def alarm(self, alarm: Alarm) -> None:
        """Show an alarm below the table, or as a line in a log."""
        self.alarms.append(alarm)
        if self.console.is_terminal:
            self.live.refresh()
        else:
            _print_line(self.console, str(alarm))

    def _left(self, update: int, metrics: Mapping[str, float]) -> str:
        """Return the time left until the updates are done or the budget is spent, at the pace so far."""
        left = math.inf if self.updates is None else (self.updates - update - 1) / self.done
        if self.budget_tokens:
            tokens = metrics.get(TOKENS_TOTAL, 0.0)
            left = min(left, (self.budget_tokens - tokens) / max(1.0, tokens - self.first_tokens))
        return f"{max(0.0, left) * (self.clock() - self.started) / 60:.1f} min"

    def _table(self) -> Group:
        told = [Text(f"{self.running}: {self.clock() - self.begun:.0f} s so far{self.took}")] if self.running else []
        told += [Text(self.warning, style="yellow")] if self.warning else []
        alarms = (Text(visible(str(alarm)), style="bold red") for alarm in tuple(self.alarms))
        return Group(self._updates_table(), *told, *alarms)

    def _updates_table(self) -> Table:
        """Return the table of the updates; on a narrow terminal without the columns that fewest people look at."""
        names = ["update", "success", "return", "held-out\nsuccess"]
        for policy in self.policies:
            names += [f"{policy}\nentropy", "KL"]
        names += ["cut", "critic EV", "time", "left", "tokens"]
        dropped = set()
        if not self.validated:
            dropped.add("held-out\nsuccess")
        if not self.budget_tokens:
            dropped.add("tokens")
        rows = tuple(self.rows)  # the live table is drawn by a thread
        table = _drawn(names, rows, dropped)
        unbounded = self.console.options.update(max_width=WIDEST)
        of_policies = {name for name in names if name == "KL" or name.endswith("\nentropy")}
        for less in ({"critic EV"}, of_policies, {"return"}):
            if self.console.measure(table, options=unbounded).maximum <= self.console.width:
                break
            dropped |= less
            table = _drawn(names, rows, dropped)
        return table


def _drawn(names: Sequence[str], rows: Iterable[Sequence[str]], dropped: Collection[str]) -> Table:
    """Return a table of updates without some of its columns."""
    kept = [place for place, name in enumerate(names) if name not in dropped]
    table = Table(title="training (shared team reward)")
    for place in kept:
        table.add_column(Text(visible(names[place])))
    for row in rows:
        table.add_row(*(row[place] for place in kept))
    return table


def _print_line(console: Console, line: str) -> None:
    console.print(visible(line), markup=False, highlight=False, soft_wrap=True)


def _cell(metrics: Mapping[str, float], name: str) -> str:
    return f"{metrics[name]:.3f}" if name in metrics else "-"


class TrainingDisplay:
    """Progress of a training on the terminal: its live table, and notes on standard error."""

    def __init__(self) -> None:
        self.table: TrainingTable | None = None

    def __call__(self, event: Event) -> None:
        """Show an event."""
        match event:
            case Started(updates, policies, budget_tokens, max_new_tokens):
                self.table = TrainingTable(
                    updates, list(policies), budget_tokens=budget_tokens, max_new_tokens=max_new_tokens
                ).__enter__()
            case Noted(text):
                say(text, error=True)
            case Updated(update, metrics) if self.table is not None:
                self.table.add(update, metrics)
            case Alarm() if self.table is not None:
                self.table.alarm(event)
            case Ended() if self.table is not None:
                self.table.__exit__(None, None, None)
            case _:
                raise AssertionError(f"{event} before the training has started")


class EpisodeCount:
    """Progress of an evaluation, as a context manager: a bar on a terminal, elsewhere a line per tenth.

    Games that are played side by side end at almost the same time, so the bar counts turns. Their total is an estimate
    until the last episode has ended: the others are as long as the mean of those that have ended.

    Args:
        title: Title of the evaluation.
        total: Number of episodes to play.
        console: Console to write to; standard error by default.
        clock: Returns the time in seconds; a line is also written after `LINE_EVERY_S` without one.
        unit: Plural of the things that are counted.
        turns: Expected turns of an episode, until one has ended; 0: the bar counts episodes.
    """

    def __init__(
        self,
        title: str,
        total: int,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
        unit: str = "episodes",
        *,
        turns: int = 0,
    ) -> None:
        self.title, self.total, self.clock, self.unit, self.turns = title, total, clock, unit, turns
        self.console = console or visible_console.console(error=True)
        self.done = self.turns_done = self.turns_ended = 0  # the latter of the episodes that have ended
        self.started = self.told = clock()
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("turns" if turns else ""),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.task = self.progress.add_task(self._description(), total=self._turns_expected() if turns else total)

    def __enter__(self) -> EpisodeCount:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def turn(self) -> None:
        """Count one more turn."""
        self.turns_done += 1
        self._draw()
        now = self.clock()
        if not self.console.is_terminal and now - self.told >= LINE_EVERY_S:
            self._tell(now, self.turns_done / self._turns_expected())

    def advance(self, note: str = "", turns: int = 0) -> None:
        """Count one more finished episode; the note stands at the end of its line.

        Args:
            note: Text about what has finished.
            turns: Turns of the episode, if turns are counted.
        """
        tenths = 10 * self.done // self.total
        self.done += 1
        self.turns_ended += turns
        self._draw(note)
        now = self.clock()
        if self.console.is_terminal or (10 * self.done // self.total == tenths and now - self.told < LINE_EVERY_S):
            return
        self._tell(now, self.done / self.total, note)

    def _draw(self, note: str = "") -> None:
        completed, total = (self.turns_done, self._turns_expected()) if self.turns else (self.done, self.total)
        self.progress.update(self.task, completed=completed, total=total, description=self._description(note))

    def _tell(self, now: float, share: float, note: str = "") -> None:
        """Write a line; the time left follows from the share that is done, once it is large enough to tell."""
        self.told = now
        counted = f"{self.done}/{self.total} {self.unit}"
        counted += f" ({self.turns_done}/{self._turns_expected()} turns)" if self.turns else ""
        # The first turns of games side by side take as long as all of them: their pace says nothing.
        if self.done and share >= LEAST_SHARE:
            counted += f", {(now - self.started) * (1 / share - 1) / 60:.1f} min left"
        _print_line(self.console, f"{self.title}: {counted}" + (f"; {note}" if note else ""))

    def _turns_expected(self) -> int:
        """Return the turns of all episodes, as far as they are known."""
        mean = self.turns_ended / self.done if self.done else self.turns
        return max(self.turns_done, self.turns_ended + math.ceil((self.total - self.done) * mean))

    def _description(self, note: str = "") -> str:
        counted = f"{self.done}/{self.total} {self.unit}" if self.turns else ""
        return " ".join(part for part in (self.title, counted, note) if part)


class StepDisplay:
    """Progress of a supervised training on the terminal: a bar with the fit of each policy, and notes.

    Args:
        title: Title of the bar.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.policies: tuple[str, ...] = ()
        self.count: EpisodeCount | None = None

    def __call__(self, event: Event) -> None:
        """Show an event."""
        match event:
            case Started(updates, policies):
                self.policies = policies
                self.count = EpisodeCount(self.title, updates or 0, unit="steps").__enter__()
            case Noted(text):
                say(text, error=True)
            case Updated(_, metrics) if self.count is not None:
                found = [(name, metrics.get(f"{metric_prefix(name)}/nll")) for name in self.policies]
                self.count.advance(", ".join(f"{name} NLL {value:.3f}" for name, value in found if value is not None))
            case Ended() if self.count is not None:
                self.count.__exit__(None, None, None)
