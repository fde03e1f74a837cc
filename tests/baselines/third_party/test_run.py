"""The command that runs all libraries: what it asks of them, and its table; none of the libraries is needed here."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from packaging.requirements import Requirement

from baselines.third_party import run, virtual_environments
from baselines.third_party.credit_check import Credit
from baselines.third_party.run import LEARN, Run, judge, table
from baselines.third_party.training_script import Algorithm, TrainingResult, main, read
from baselines.third_party.virtual_environments import LIBRARIES, ROOT, TORCH

GOOD = TrainingResult("torchrl", "0.14.1", "mappo", "TurnParallel", "cheap_talk-v0", 0.9, 1 / 3, 0.94, 8192, 21.0, 0)


SCRIPTS = [
    path
    for path in sorted((ROOT / "baselines/third_party").glob("*.py"))
    if "\nALGORITHMS = {" in path.read_text("utf-8")
]


def offered(script):
    """The algorithms of a script, read without importing its library."""
    assigned = [node for node in ast.parse(script.read_text("utf-8")).body if isinstance(node, ast.Assign)]
    (table,) = [node.value for node in assigned if ast.unparse(node.targets[0]) == "ALGORITHMS"]
    return {(script.stem, key.value) for key in table.keys}


def test_every_algorithm_of_every_script_is_run():
    wanted = {pair for library in LIBRARIES.values() for pair in library.runs}
    assert wanted == set().union(*map(offered, SCRIPTS))


def test_libraries_have_tested_bounds_and_torch_is_pinned_as_everywhere():
    for library in LIBRARIES:
        specifier = Requirement(virtual_environments.bounds(library)[0]).specifier
        assert {one.operator for one in specifier} == {">=", "<"}
    assert TORCH in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()


def test_an_environment_holds_its_libraries_and_what_ours_needs():
    held = {Requirement(line).name for line in virtual_environments.requirements("rllib")}
    assert {"ray", "pettingzoo", "gymnasium", "numpy"} <= held
    assert "torchrl" not in held


def test_an_environment_that_is_there_is_taken_as_it_is(tmp_path):
    lines = [TORCH, *virtual_environments.requirements("rllib")]
    (tmp_path / "installed.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    python = virtual_environments.prepare("rllib", tmp_path)
    assert virtual_environments.interpreter("rllib", tmp_path) == python
    assert virtual_environments.interpreter("agilerl", tmp_path) is None  # it would hold something else
    assert python.parent.parent == tmp_path
    assert [path.name for path in tmp_path.iterdir()] == ["installed.txt"]


# -------------------------------------------------------------------- judging


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({}, ""),
        ({"credit": 0.1}, "does not reach"),
        ({"credit": float("nan")}, "does not reach"),
        ({"success": 1 / 3 + LEARN - 0.01}, "success 0.52, wanted 0.53"),
        ({"success": 0.4, "chance": 1 / 6}, ""),
        ({"success": 0.3, "credit": 0.1}, "(credit 0.10); success 0.30"),
    ],
)
def test_what_must_hold_of_an_outcome(change, fault):
    found = judge(replace(GOOD, **change))
    assert bool(found) == bool(fault)
    assert fault in found


def test_the_table_shows_success_beside_chance_and_what_failed():
    drawn = table(
        [Run("torchrl", "mappo", "cheap_talk-v0", GOOD), Run("skrl", "ippo", "gsm8k-v0", None, "exit code 1")]
    )
    head, _, good, bad = drawn.splitlines()
    assert good == ("| torchrl 0.14.1 | mappo | TurnParallel | cheap_talk-v0 | 0.90 | 0.33 | 0.94 | 8192 | 21 | ok |")
    assert bad == "| skrl | ippo | | gsm8k-v0 | | | | | | exit code 1 |"
    assert head.count("|") == good.count("|") == bad.count("|")


def test_a_script_that_fails_says_where_its_output_is(tmp_path):
    log = tmp_path / "a.log"
    assert run._execute([sys.executable, "-c", "print('so'); raise SystemExit(3)"], log) == f"exit code 3, see {log}"
    assert log.read_text(encoding="utf-8") == "so\n"
    assert run._execute([sys.executable, "-c", "import baselines.third_party"], log) == ""


def test_each_script_is_planned_on_each_game_unless_its_library_cannot_be_installed(monkeypatch):
    def prepare(environment, folder):
        if environment == "agilerl":
            raise subprocess.CalledProcessError(2, "pip")
        return folder / "python"

    monkeypatch.setattr(run, "prepare", prepare)
    planned, (fault,) = run.plan(["sb3", "agilerl"], ["gsm8k-v0"])
    assert [(one.script, one.algorithm, one.game) for one in planned] == [
        ("sb3_ppo", "ppo", "gsm8k-v0"),
        ("sb3_ppo", "maskable_ppo", "gsm8k-v0"),
    ]
    assert fault.library == "agilerl"
    assert fault.fault.startswith("pip failed with exit code 2, see ")


def test_an_unknown_library_is_refused(capsys):
    with pytest.raises(SystemExit):
        run.main(["--only", "sb3,sb4"])
    assert "found sb4, wanted some of torchrl, benchmarl" in capsys.readouterr().err


# ------------------------------------------------------------ what scripts share


def constant(game, steps, seed):
    """Always choose the first candidate, for some turns; an algorithm that learns nothing."""
    env, credit = game.choosing(), Credit()
    env.reset(seed=seed)
    for _ in range(steps // 2):
        env.step(0)
        env.step(0)
        credit.add([0.0, 0.0], [0.0, float(game.scores.won[-1])], [False, True])
        env.reset()
    return credit


def test_a_script_reports_success_by_chance_for_who_learns_nothing(tmp_path, capsys):
    file = tmp_path / "outcome.json"
    arguments = ["--game", "gsm8k-v1", "--steps", "600", "--seed", "1", "--json", str(file)]
    assert main("numpy", {"constant": Algorithm("CandidateAction", constant)}, arguments) == 0
    outcome = read(file)
    assert outcome.success == pytest.approx(outcome.chance, abs=0.09)
    assert (outcome.library, outcome.algorithm, outcome.game, outcome.steps) == ("numpy", "constant", "gsm8k-v1", 600)
    assert outcome.credit == 0
    assert "does not reach" in judge(outcome)
    assert str(outcome) in capsys.readouterr().out
    assert json.loads(file.read_text(encoding="utf-8"))["seed"] == 1


# ------------------------------------------------------------------------ pages

LIBRARY_PAGES = sorted({*(ROOT / "docs/libraries").glob("*.md")} - {ROOT / "docs/libraries/README.md"})


def test_there_is_a_page_for_each_library():
    assert {page.stem for page in LIBRARY_PAGES} == {*LIBRARIES, "stable_baselines3"} - {"sb3"}


def test_the_page_of_all_libraries_links_to_each_and_shows_its_result():
    page = (ROOT / "docs/libraries/README.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if "| ok |" in line]
    assert {line.name for line in LIBRARY_PAGES} <= set(re.findall(r"\]\((\w+\.md)\)", page))
    assert len(rows) == len(run.DEFAULT_GAMES) * sum(len(library.runs) for library in LIBRARIES.values())


@pytest.mark.parametrize("page", LIBRARY_PAGES, ids=lambda page: page.stem)
def test_what_a_page_shows_stands_in_a_script_that_it_links_to(page):
    """The blocks are parts of the scripts: they are not run here, since they need the library, but may not drift."""
    text = page.read_text("utf-8")
    linked = [(page.parent / target).resolve() for target in re.findall(r"\]\(([^)]+\.py)\)", text)]
    shown = "\n".join(path.read_text("utf-8") for path in linked)
    lines = {line.strip() for line in shown.splitlines()}
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert linked
    assert blocks
    assert [line for block in blocks for line in block.splitlines() if line.strip() not in lines] == []


def test_pages_name_the_versions_that_are_installed():
    for name in LIBRARIES:
        page = ROOT / "docs/libraries" / ("stable_baselines3.md" if name == "sb3" else f"{name}.md")
        specifier = Requirement(virtual_environments.bounds(name)[0]).specifier
        lowest = next(one.version for one in specifier if one.operator == ">=")
        assert lowest in page.read_text("utf-8"), f"{page.name}: {lowest}"
