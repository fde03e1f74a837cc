"""Text of data and models never reaches a terminal raw, whichever command prints it, on a terminal or in a pipe."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import sys
import warnings

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

import marft_envs
from baselines.cli.main import main
from baselines.cli.play import HumanPolicy
from baselines.cli.progress import EpisodeCount, TrainingTable
from baselines.cli.terminal import guard_warnings_and_tracebacks, say
from baselines.results.visible_console import VisibleConsole
from marft_agents.monitoring.alarms import Alarm
from marft_agents.policies.policy import Request
from marft_common.visible_text import HIDDEN

OWNED = "owned"
HOSTILE = (
    f"\x1b]0;{OWNED}\x07\x1b[2J\x9b31m\x90q\x9c\rover\x08\x0b\x0c\x7f\u202eright\u2066\u2069\u200b\ufeff"
    "[bold red]x[/] [/bold] :boom: [link=http://x]y[/link]"
)
GAME = "marft/gsm8k_duo-v0"
STYLES = re.compile(r"\x1b\[[\d;]*m|\x1b\[\?25[lh]|\x1b\[\d*[AK]|\x1b\[2K|\r")  # what rich itself writes to a terminal


def assert_harmless(text):
    left = [found for found in HIDDEN.findall(text) if found not in "\n\t"]
    assert not left, text


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert_harmless(captured.out)
    assert_harmless(captured.err)
    return code, captured.out, captured.err


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A data file with hostile texts, and an evaluation on it."""
    folder = tmp_path_factory.mktemp("desk")
    rows = [
        {
            "id": f"{i}{HOSTILE}",
            "question": f"What is {i} + 2? {HOSTILE}",
            "answer": str(i + 2),
            "level": HOSTILE * (i % 2),
        }
        for i in range(4)
    ]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    name = f"e{HOSTILE.replace('/', '')}"
    flags = ["--env", GAME, "--data", str(folder / "data.jsonl"), "--model", "tiny", "--max-new-tokens", "4"]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as error:
        assert main(["eval", *flags, "--device", "cpu", "--out", str(folder / name)]) == 0
    assert OWNED in out.getvalue()
    assert_harmless(out.getvalue() + error.getvalue())
    shutil.copytree(folder / name, folder / "a")
    return folder, folder / name


COMMANDS = {
    "show": lambda data, other: ["show", GAME, "--data", data],
    "play": lambda data, other: ["play", GAME, "--data", data, "--index", "1"],
    "compare": lambda data, other: ["compare", data.parent / "a", other],
    "report": lambda data, other: ["report", other, "--out", data.parent / "r.html"],
    "export": lambda data, other: ["export", other, "--format", "jsonl", "--out", data.parent / f"x{OWNED}.jsonl"],
    "data from-runs": lambda data, other: [
        *(
            "data",
            "from-runs",
            other,
            "--where",
            "success >= 0",
            "--allow-split",
            "test",
            "--out",
            data.parent / "turns",
        )
    ],
    "data mine": lambda data, other: ["data", "mine", other, "--out", data.parent / "tasks.jsonl"],
    "check": lambda data, other: ["check", GAME, "--data", data, "--quick"],
}


QUIET = ("check", "report", "data from-runs", "data mine")  # they print numbers and names of files


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_print_nothing_that_a_terminal_obeys(desk, capsys, name):
    folder, other = desk
    code, out, error = run(capsys, *COMMANDS[name](folder / "data.jsonl", other))
    assert code == 0, error
    assert OWNED in out or name in QUIET, "the text was not printed at all"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"question": "What is 1 + 1?", "answer": "2", "split": HOSTILE}, "split"),
        ({HOSTILE: "What is 1 + 1?", "answer": "2"}, "columns"),
        ({"id": HOSTILE, "question": "What is 1 + 1?", "answer": "2"}, "unique ids"),
    ],
)
def test_error_lines_are_one_line_without_control_characters(tmp_path, capsys, row, words):
    (tmp_path / "x.jsonl").write_text((json.dumps(row) + "\n") * 2)
    code, _, error = run(capsys, "show", GAME, "--data", tmp_path / "x.jsonl")
    assert code == 1
    assert words in error
    assert error.count("\n") == 1
    assert re.search(r"\\(?:u001b|x1b)\]0;owned", error)


def test_a_plugin_cannot_write_to_the_terminal_by_its_description(capsys, monkeypatch):
    spec = marft_envs.spec(GAME)
    hostile = [type(spec)(**{**vars(spec), "description": HOSTILE, "id": f"marft/{HOSTILE}-v0"})]
    monkeypatch.setattr(marft_envs, "envs", lambda: ["x"])
    monkeypatch.setattr(marft_envs, "spec", lambda _: hostile[0])
    assert OWNED in run(capsys, "envs")[1]
    assert json.loads(run(capsys, "envs", "--json")[1])[0]["description"] == HOSTILE


def test_a_human_player_sees_and_is_asked_in_visible_text(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("4\n"))
    HumanPolicy().act([Request(f"a{HOSTILE}", HOSTILE, None)])
    shown = capsys.readouterr().out
    assert shown.count(OWNED) == 3
    assert_harmless(shown)


def test_the_picture_of_a_game_is_visible_text(capsys, tmp_path):
    (tmp_path / "x.jsonl").write_text(json.dumps({"question": HOSTILE, "answer": "2", "id": HOSTILE}) + "\n")
    env = marft_envs.make(GAME, data=str(tmp_path / "x.jsonl"), render_mode="human")
    env.reset(seed=0)
    env.step(HOSTILE)
    env.render()
    shown = capsys.readouterr().out
    assert OWNED in shown
    assert_harmless(shown)


@pytest.mark.parametrize("cell", [HOSTILE, Text(HOSTILE)])
def test_a_terminal_gets_styles_of_ours_alone_and_no_markup_of_data(cell):
    stream = io.StringIO()
    console = VisibleConsole(file=stream, force_terminal=True, width=400)
    table = Table("name", HOSTILE, title=HOSTILE)
    table.add_row(HOSTILE, cell)
    console.print(table)
    console.print(HOSTILE)
    assert_harmless(STYLES.sub("", stream.getvalue()))
    assert "[bold red]x[/] [/bold] :boom: [link=http://x]y[/link]" in stream.getvalue()


def test_live_tables_show_names_and_alarms_as_text():
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=400)
    metrics = {"team/success": 0.5, "team/return": 0.5, "seconds/rollout": 1.0, "seconds/update": 1.0}
    with TrainingTable(2, [f"agent{HOSTILE}"], console) as table:
        table.add(0, metrics)
        table.alarm(Alarm(1, HOSTILE, "stall", "kl", 1.0, 0.5, HOSTILE))
    with EpisodeCount(HOSTILE, 2, VisibleConsole(file=stream, force_terminal=True, width=400)) as count:
        count.advance(HOSTILE)
    assert OWNED in stream.getvalue()
    assert_harmless(STYLES.sub("", stream.getvalue()))


@pytest.mark.parametrize(("width", "left_out"), [(80, {"critic EV", "entropy", "KL"}), (130, set())])
def test_a_narrow_terminal_gets_fewer_columns_and_none_is_cut(width, left_out):
    stream = io.StringIO()
    metrics = {"team/success": 0.5, "team/return": 0.5, "seconds/rollout": 10.0, "seconds/update": 10.0}
    metrics |= {"validation/success": 0.5, "validation/low": 0.4, "validation/high": 0.6}
    with TrainingTable(12, ["reasoner_0", "actor_0"], Console(file=stream, force_terminal=True, width=width)) as table:
        table.add(9, metrics)
    shown = stream.getvalue()
    assert "…" not in shown
    names = {"success", "return", "held-out", "critic EV", "entropy", "KL", "left"}
    assert {name for name in names if name not in shown} == left_out


def test_warnings_and_tracebacks_are_visible_text(capsys, monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    guard_warnings_and_tracebacks()
    assert_harmless(warnings.formatwarning(UserWarning(HOSTILE), UserWarning, "x.py", 1))
    try:
        raise RuntimeError(HOSTILE)
    except RuntimeError:
        sys.excepthook(*sys.exc_info())
    shown = capsys.readouterr().err
    assert OWNED in shown
    assert_harmless(shown)


def test_saying_is_printing(capsys):
    say("a", 1, None, sep="\t", end="|\n")
    say("b\r\nc", error=True)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("a\t1\tNone|\n", "b\nc\n")
