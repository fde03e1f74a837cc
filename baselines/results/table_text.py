"""Tables of a benchmark as Markdown, for a terminal, as JSON, and on a page; see `baselines.results.tables`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table as TerminalTable

from baselines.results import visible_console
from baselines.results.bench_records import RecordsError, read_records
from baselines.results.curve_picture import HeldOut, draw_curves
from baselines.results.learning_curves import VALIDATION, Curves, Group, Meeting, distinct_names
from baselines.results.tables import REFERENCE, TEAM, WHOLE, ArmRow, TaskTable, tables_of

START, END = "<!-- tables of marft bench: start -->", "<!-- tables of marft bench: end -->"
TERMINAL_WIDTH = 200  # characters, where the output is not a terminal
MARK = "†"  # at the arm of a row that no claim can rest on
COLUMNS = (
    "arm",
    "team",
    "algorithm",
    "seeds",
    "success [95 %]",
    "difference [95 %]",
    "Holm p",
    "MDE",
    "training tokens",
    "updates",
    "episodes",
    "output tokens",
    "ideal-cache tokens",
    "critical path",
    "seconds",
    "failed",
    "cap hit",
)

IN_FILES_ONLY = ("seeds", "MDE", "episodes", "ideal-cache tokens")  # columns for which a terminal has no room
NEWER = ("updates", "episodes")  # columns that are left out where no record of a table has them


def columns_of(table: TaskTable) -> list[str]:
    """Return the columns of a table in files."""
    unknown = {name for name in NEWER if all(getattr(row, name) is None for row in table.rows)}
    return [name for name in COLUMNS if name not in unknown]


def cells_of_row(row: ArmRow) -> list[str]:
    """Return the texts of a row, in the order of `COLUMNS`."""
    return [
        row.arm + (f" ({row.note})" if row.note else "") + _mark(row),
        row.team,
        row.algorithm or "-",
        str(row.seeds) if row.seeds else "-",
        _interval(row.success),
        _difference(row),
        "-" if row.p_value is None else "<0.001" if row.p_value < 0.001 else f"{row.p_value:.3f}",
        _detectable(row.detectable),
        _number(row.training_tokens, ",.0f"),
        _number(row.updates, ",.1f"),
        _number(row.episodes, ",.0f"),
        f"{row.output_tokens:.1f}",
        _number(row.ideal_cache_tokens, ".1f"),
        _number(row.critical_path_tokens, ".1f"),
        f"{row.seconds:,.0f}",
        str(row.failures),
        f"{row.cap_hit_share:.1%}",
    ]


def _mark(row: ArmRow) -> str:
    return f" {MARK}" if row.limits else ""


def _difference(row: ArmRow) -> str:
    """Return the difference of a row, with its training seeds where the arms have different ones."""
    if row.difference is None:
        return "-"
    return _interval(row.difference, sign=True) + (f" over {_seeds(row.unequal.seeds)}" if row.unequal else "")


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed{'s' * (len(seeds) != 1)} {', '.join(map(str, seeds))}"


def _interval(values: tuple[float, float, float], *, sign: bool = False) -> str:
    form = "+.3f" if sign else ".3f"
    mean, low, high = (format(value, form) for value in values)
    return f"{mean} [{low}, {high}]"


def _detectable(effect: float | None) -> str:
    """Return a minimum detectable effect; no difference of shares exceeds 1."""
    return "> 1" if effect is not None and effect > 1 else _number(effect, ".3f")


def _number(value: float | None, form: str) -> str:
    return "-" if value is None or math.isnan(value) else format(value, form)


def notes_of(table: TaskTable) -> list[str]:
    """Return the sentences under a table."""
    rules, names = table.rules, distinct_names(row.key for row in table.rows)
    said = []
    if rules:
        checksum = rules["checksum"].removeprefix("sha256:")[:12]
        model = rules["model"] + ("" if rules["dtype"] == "auto" else f" in {rules['dtype']}")
        window = rules["context_window"]
        held = f" Prompts and actions of at most {window} tokens, but of {WHOLE}." if window else ""
        said.append(
            f"All arms: {rules['scenarios']} test problems (list {checksum}), {rules['horizon']} "
            f"round{'s' * (rules['horizon'] != 1)}, feedback {rules['feedback']}, {rules['evaluation_seeds']} sampling "
            f"seed{'s' * (rules['evaluation_seeds'] != 1)} at temperature {rules['temperature']}, {model}.{held}"
        )
    said.append(f"Difference: to {table.reference} of the same team, paired over training seeds and problems.")
    for row in table.rows:
        if row.unequal is not None:
            said.append(
                f"Unequal seeds: the difference of {names[row.key]} is over {_seeds(row.unequal.seeds)}, which both "
                f"arms have. There the means are {row.unequal.success:.3f} and {row.unequal.reference:.3f}."
            )
    said += _limits(table.rows, names)
    for row in table.rows:
        if row.coordination_gap is not None:
            said.append(
                f"Coordination gap of {row.team}, {row.algorithm} (one agent with all tools - team): "
                f"{_interval(row.coordination_gap, sign=True)}{_mark(row)}."
            )
    detectable = [row.detectable for row in table.rows if row.detectable is not None]
    ends = f"{_detectable(min(detectable))} to {_detectable(max(detectable))}. " if detectable else ""
    said.append(
        f"{f'MDE, the smallest true difference found with 80 % power: {ends}' if ends else ''}"
        "Tokens but those of training are per answer."
    )
    if table.noise_floor is None:
        said.append("Noise floor: not measured, since there is one sampling seed.")
    else:
        said.append(f"Noise floor (the same team evaluated twice): {table.noise_floor:.3f}.")
    said += _settings(table.rows, names)
    if table.curve is not None:
        said += _curve_notes(table.curve, table.reference, names)
    said += [f"Failed cell {line}" for line in table.failed]
    return said


def _by_text(rows: Iterable[tuple[str, Group]], names: Mapping[Group, str]) -> dict[str, str]:
    """Return the names of the rows that share a text, by text; "all rows" where it is every one of several."""
    found: dict[str, list[Group]] = {}
    for text, key in rows:
        found.setdefault(text, []).append(key)
    joined = {text: ", ".join(names[key] for key in keys) for text, keys in found.items()}
    return {text: "all rows" if len(found[text]) == len(names) > 1 else told for text, told in joined.items()}


def _limits(rows: Sequence[ArmRow], names: Mapping[Group, str]) -> list[str]:
    """Return which rows no claim can rest on, and why."""
    found = _by_text(((reason, row.key) for row in rows for reason in row.limits), names)
    if not found:
        return []
    head = f"{MARK} No claim can rest on this row: no p, no MDE, and no part in Holm's correction."
    return [head, *(f"{MARK} {rows_named}: {reason}." for reason, rows_named in found.items())]


def _settings(rows: Sequence[ArmRow], names: Mapping[Group, str]) -> list[str]:
    """Return the settings of the training that arms have for themselves, and the grids that they were chosen from."""
    own = _by_text(((_setting_text(each), row.key) for row in rows for each in row.settings), names)
    said = [f"Settings of {names}: {text}." for text, names in own.items()]
    grids = _by_text(((_grid_text(each), row.key) for row in rows for each in row.tuned), names)
    return [*said, *(f"Settings of {names} were chosen on validation tasks. {text}" for text, names in grids.items())]


def _setting_text(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {json.dumps(value)}" for name, value in settings.items()) or "those of the task"


def _grid_text(tuned: Mapping[str, Any]) -> str:
    """Return the trials of a grid with success and tokens, and the chosen one."""
    trials = []
    for trial in tuned["grid"]:
        tokens = trial.get("tokens")
        cost = "" if tokens is None else f" after {tokens:,.0f} tokens"
        trials.append(f"{_setting_text(trial['settings'])}: {_number(trial.get('success'), '.3f')}{cost}")
    return f"Success by trial: {'; '.join(trials)}. Chosen: {_setting_text(tuned['chosen'])}."


def _curve_notes(curves: Curves, reference: str, names: Mapping[Group, str]) -> list[str]:
    """Return what the learning curves show, and where arms meet the reference."""
    source = "on held-out validation tasks" if curves.source == VALIDATION else "of the episodes that are trained on"
    said = [f"Learning curves: success {source}, against generated tokens; mean and range over training seeds."]
    if curves.meetings:
        met = "; ".join(f"{names[meeting.key]} {_meeting(meeting)}" for meeting in curves.meetings)
        said.append(
            f"Tokens from which on the curve of an arm stays above that of {reference} [95 % bootstrap over common "
            f"seeds]: {met}."
        )
    return said


def _meeting(found: Meeting) -> str:
    """Return the budget at which an arm meets the reference, with its interval."""
    mean, low, high = (
        f"not within {found.within:,.0f}" if tokens is None else f"{tokens:,.0f}"
        for tokens in (found.tokens, found.low, found.high)
    )
    if found.share is None:
        return f"{mean} (one seed, no interval)"
    return f"{mean} [{low}, {high}]" if found.low is not None else f"{mean} [nor in {1 - found.share:.0%} of resamples]"


def overview(tables: Sequence[TaskTable]) -> str:
    """Return success by task and arm as one Markdown table, the task on which the team is worst first.

    The last two columns are the difference of the team to the reference, and its minimum detectable effect.
    """
    arms = sorted({row.arm for table in tables for row in table.rows}, key=lambda arm: (arm != "team", arm))
    lines = []
    for table in tables:
        found = {(row.arm, row.team, row.algorithm): row for row in table.rows}
        for team, algorithm in dict.fromkeys((row.team, row.algorithm) for row in table.rows if row.algorithm):
            rows = [found.get((arm, team, algorithm)) or found.get((arm, team, "")) for arm in arms]
            cells = ["-" if row is None else _interval(row.success) + _mark(row) for row in rows]
            first = next(row for row in rows if row is not None)  # the team, which `arms` names first
            cells.append(_difference(first))
            cells.append(_detectable(first.detectable))
            lines.append((first.success[0], f"| {table.task} | {team} | {algorithm} | {' | '.join(cells)} |"))
    columns = ["task", "team", "algorithm", *arms, f"{arms[0]} - {tables[0].reference}", "MDE"]
    head = ["### Success [95 %] of all tasks", "", f"| {' | '.join(columns)} |"]
    shown = [*head, f"|{'---|' * 3}{'---:|' * (len(arms) + 2)}", *(line for _, line in sorted(lines))]
    if any(row.limits for table in tables for row in table.rows):
        shown += ["", f"{MARK} No claim can rest on this row; its table says why."]
    return "\n".join(shown)


def markdown(tables: Sequence[TaskTable]) -> str:
    """Return the tables as Markdown, each with its commands and commits; above several of them an overview."""
    parts = [overview(tables)] if len(tables) > 1 else []
    for table in tables:
        lines = [f"### {table.task}", "", "```bash", *table.commands, "```", ""]
        columns = columns_of(table)
        lines += [f"| {' | '.join(columns)} |", f"|{'---|' * 3}{'---:|' * (len(columns) - 3)}"]
        for row in table.rows:
            cells = dict(zip(COLUMNS, cells_of_row(row), strict=True))
            lines.append(f"| {' | '.join(cells[name] for name in columns)} |")
        lines += ["", *(f"{line}\n" for line in notes_of(table))]
        lines.append(f"Commit {', '.join(commit or 'unknown' for commit in table.commits)}.")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def terminal(tables: Sequence[TaskTable]) -> str:
    """Return the tables for a terminal."""
    console = visible_console.console(width=TERMINAL_WIDTH, colours=False)
    with console.capture() as captured:
        for table in tables:
            columns = [name for name in columns_of(table) if name not in IN_FILES_ONLY]
            shown = TerminalTable(*columns, title=table.task)
            for row in table.rows:
                cells = dict(zip(COLUMNS, cells_of_row(row), strict=True))
                shown.add_row(*(cells[name] for name in columns))
            console.print(shown)
            for line in notes_of(table):
                console.print(line)
    return captured.get()


def to_json(tables: Sequence[TaskTable]) -> str:
    """Return the tables as JSON; NaN and infinities are null."""
    plain = json.loads(json.dumps([asdict(table) for table in tables]), parse_constant=lambda _: None)
    return json.dumps(plain, indent=1) + "\n"


def save_tables(places: Sequence[Path], out: Path, reference: str = REFERENCE) -> str:
    """Write table.md, table.json and the learning curves to a folder; return the tables for a terminal."""
    tables = tables_of(read_records(places), reference)
    (out / "table.md").write_text(markdown(tables), encoding="utf-8")
    (out / "table.json").write_text(to_json(tables), encoding="utf-8")
    if any(table.curve for table in tables):
        save_curves(tables, out / "curve.png")
    return terminal(tables)


def save_curves(tables: Sequence[TaskTable], picture: Path) -> None:
    """Draw the learning curves of tables, and write their numbers to a JSON file beside the picture.

    Raises:
        RecordsError: No table has a curve, or the picture is no PNG file.
    """
    if picture.suffix != ".png":
        raise RecordsError(f"found the picture {picture}, wanted a name that ends in .png")
    if not any(table.curve for table in tables):
        raise RecordsError(
            "the records hold no learning curves: wanted cells of trainings (older exports have none; folders do while "
            "their trainings/ is there)"
        )
    picture.parent.mkdir(parents=True, exist_ok=True)
    draw_curves({table.task: (table.curve, _held_out(table)) for table in tables}, picture)
    found = []
    for table in tables:
        if table.curve is not None:
            found.append({"task": table.task, "reference": table.reference, **asdict(table.curve)})
    picture.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _held_out(table: TaskTable) -> list[HeldOut]:
    """Return the success on the test problems of each training, and of what is not trained; one of each training."""
    found, drawn = [], set[str]()
    first = (TEAM, table.reference)
    for row in sorted(table.rows, key=lambda row: (row.arm not in first, row.arm)):
        if not row.trainings or not drawn.issuperset(row.trainings):
            found.append(HeldOut(row.key, row.seeds, row.training_tokens or 0.0, row.success))
        drawn.update(row.trainings)
    return found


def fill_page(page: str, tables: str) -> str:
    """Replace the tables of a page, between its two marks.

    Raises:
        RecordsError: The page has no marks.
    """
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise RecordsError(f"the page has no place for tables: wanted the lines {START} and {END}")
    return f"{before}{START}\n\n{tables}\n{END}{after}"
