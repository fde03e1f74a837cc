"""Pages are true: examples run and print the shown output, commands exist, links resolve."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from doctest import ELLIPSIS, OutputChecker
from itertools import chain
from pathlib import Path

import pytest

import envs_data
import marft_envs
from baselines.cli.main import build_parser
from benchmarks.communication_token_cost import FORMS as benchmarked
from marft_envs.communication import FORMS
from marft_envs.graders import GraderSettings
from marft_envs.registration.plugins import UNLISTED
from marft_envs.tasks.tools.connectors.tool_file import ToolFile
from marft_envs.teams.team import PRESETS
from tests.house.house_pages import (
    DOCS,
    INDEX,
    PAGES,
    QUOTING,
    ROOT,
    blocks,
    commands,
    every_block,
    rows_of_the_index,
    shown_output,
)
from tests.house.run_page import SEPARATOR

AGENTS = ("docs/agents.md",)  # test_agents_page.py follows it
TUTORIAL = tuple(rows_of_the_index("Tutorial"))
LONG = ("README.md", "docs/command_line.md", "docs/learner.md", "docs/tasks.md", *TUTORIAL)  # they train
RUN = [(page,) for page in PAGES if page not in (*TUTORIAL, *QUOTING, *AGENTS)] + [TUTORIAL]
OWN_SETTINGS = {"luck.toml": GraderSettings.of, "hotel.toml": ToolFile.read}  # files that are no config of a command


def _runs(block):
    return block.language in ("python", "console")


@pytest.mark.parametrize(
    "pages",
    [
        pytest.param(pages, marks=pytest.mark.long if pages[0] in LONG else (), id=str(pages))
        for pages in RUN
        if any(map(_runs, chain(*map(blocks, pages))))
    ],
)
def test_examples_run_in_order_and_print_what_is_shown(pages, tmp_path):
    """One process per page, and one for the tutorial: later examples may use what earlier ones made, as readers do."""
    everything = [block for page in pages for block in blocks(page)]
    for block in everything:
        if block.file is not None:
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
    examples = [block for block in everything if _runs(block)]
    texts = [f"import {Path(block.file).stem}" if block.file else block.text for block in examples]
    described = [
        {"language": block.language, "text": text, "where": block.where}
        for block, text in zip(examples, texts, strict=True)
    ]
    (tmp_path / "blocks.json").write_text(json.dumps(described), encoding="utf-8")
    done = _run_python([str(ROOT / "tests/house/run_page.py"), "blocks.json"], tmp_path)
    assert done.returncode == 0, f"{pages}:\n{done.stderr}"
    printed = done.stdout.split(SEPARATOR + "\n")[:-1]
    for block, output in zip(examples, printed, strict=True):
        shown = block.text if block.language == "console" else shown_output(block) or ""
        same = OutputChecker().check_output(shown, output, ELLIPSIS if block.language == "console" else 0)
        assert same, f"{block.where} prints something else than the page shows:\n{output}"


def _run_python(arguments, folder):
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}",
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "100",
            "NO_COLOR": "1",
        },
        capture_output=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )


@pytest.mark.parametrize("page", QUOTING)
def test_lines_of_code_on_the_pages_of_libraries_are_those_of_the_scripts(page):
    scripts = {path.read_text(encoding="utf-8") for path in (ROOT / "baselines/third_party").glob("*.py")}
    for block in blocks(page):
        if block.language == "python":
            lines = [line.strip() for line in block.text.splitlines() if line.strip() not in ("", "...")]
            assert any(all(line in script for line in lines) for script in scripts), block.where


def test_the_uses_of_the_readme_are_short():
    """Each has at most eight lines, without imports and blank ones; the two commands stand before the picture."""
    uses = [block for block in blocks("README.md") if block.language in ("python", "toml")]
    lines = {use.where: re.findall(r"^(?!from |import |$).+", use.text, re.MULTILINE) for use in uses}
    assert len(lines) == 3
    assert {where: found for where, found in lines.items() if len(found) > 8} == {}
    start = blocks("README.md")[0]
    assert [command.split()[:2] for where, command in commands() if where == start.where] == [
        ["make", "quickstart"],
        ["make", "test"],
    ]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text[: text.index("](docs/quickstart.png)")].count("\n") < 20


def test_the_environment_of_the_readme_conforms(tmp_path):
    (file,) = [block for block in blocks("README.md") if block.file == "my_sums.py"]
    (tmp_path / "my_sums.py").write_text(file.text, encoding="utf-8")
    checked = """
import my_sums
from functools import partial
import marft_envs
from marft_envs.testing import check_environment

report = check_environment(partial(marft_envs.make, "my/sums_trio-v0"), cycles=5)
assert report.passed, str(report)
"""
    done = _run_python(["-c", checked], tmp_path)
    assert done.returncode == 0, done.stderr


def test_json_and_toml_blocks_are_wellformed():
    for block in every_block("json"):
        lines = block.text.splitlines() if (block.file or "").endswith(".jsonl") else [block.text]
        for line in lines:
            json.loads(line)
    for block in every_block("toml"):
        record = tomllib.loads(block.text)
        if block.file in OWN_SETTINGS:
            OWN_SETTINGS[block.file](record)
        else:
            known = "command" in record or "tasks" in record  # of a command; of `marft bench`
            assert known or record["project"]["entry-points"]["marft_envs.plugins"], block.where


def test_every_block_has_a_known_language():
    known = {"python", "text", "bash", "console", "json", "toml", "mermaid", "math"}
    unknown = [block.where for page in PAGES for block in blocks(page) if block.language not in known]
    assert unknown == []


def test_drawings_are_flowcharts_with_closed_brackets():
    for block in every_block("mermaid"):
        assert re.match(r"flowchart (TD|LR)\n", block.text), block.where
        assert block.text.count('"') % 2 == 0, block.where
        for left, right in ("[]", "{}", "()"):
            assert block.text.count(left) == block.text.count(right), block.where
        assert len(re.findall(r"^ *subgraph ", block.text, re.M)) == len(re.findall(r"^ *end$", block.text, re.M))


# ------------------------------------------------------------------ commands


@pytest.fixture(scope="module")
def parser():
    return build_parser()


@pytest.fixture(scope="module")
def targets():
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.fixture(scope="module")
def extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return set(project["optional-dependencies"])


@pytest.mark.parametrize(("where", "command"), commands())
def test_every_command_of_the_pages_exists(where, command, parser, targets, extras):
    words = shlex.split(command, comments=True)
    program, *arguments = itertools.dropwhile(re.compile(r"[A-Z_]+=").match, words)  # variables stand first
    if program == "marft":
        _assert_parses(parser, arguments)
        parser.parse_args(arguments)
    elif program == "make":
        assert {argument for argument in arguments if not argument.startswith("ARGS=")} <= targets
    elif program == "pip":
        wanted = re.search(r"^marft\[([\w,]+)\]$", arguments[-1])
        assert arguments[0] == "install", where
        assert wanted is None or set(wanted[1].split(",")) <= extras, where
    elif program == "ray":
        assert arguments[0] == "start", where
    elif program == "docker":
        assert arguments[0] in ("build", "run"), where
        given = re.findall(r"--build-arg (\w+)=", command)
        dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
        assert all(re.search(rf"^ARG {name}\b", dockerfile, re.MULTILINE) for name in given), where
        if arguments[0] == "run":
            parser.parse_args(shlex.split(re.search(r" marft(?:-cuda)? (.+)", command)[1]))
    elif program == ".":
        assert arguments == [".venv/bin/activate"]
    else:
        assert program in ("python", ".venv/bin/python"), f"{where}: a program that no test knows"
        if arguments[0] == "-m":
            assert importlib.util.find_spec(arguments[1]) is not None
        else:
            assert (ROOT / arguments[0]).is_file() or where.startswith(AGENTS), where


def _assert_parses(parser, arguments):
    arguments = arguments[: [*arguments, "--"].index("--")]  # what follows goes to another program
    flags = {argument.partition("=")[0] for argument in arguments if argument.startswith("--")}
    known, rest = set(), list(arguments)
    while parser._subparsers and rest:
        parser = parser._subparsers._group_actions[0].choices[rest.pop(0)]
        known |= set(parser._option_string_actions)
    assert flags <= known, "a flag that there is not, or an abbreviated one"


def test_commands_within_sentences_exist(parser):
    known = parser._subparsers._group_actions[0].choices
    for page in PAGES:
        for name in re.findall(r"`marft ([a-z][a-z-]*)", (ROOT / page).read_text(encoding="utf-8")):
            assert name in known, f"{page}: marft {name}"


def test_every_command_has_a_line_on_its_page(parser):
    page = (ROOT / "docs/command_line.md").read_text(encoding="utf-8")
    for name in parser._subparsers._group_actions[0].choices:
        assert re.search(rf"^\| `marft {name}\b", page, re.MULTILINE), name


def _lists_of_forms():
    """Yield (page, text) for each list of the forms of communication: a paragraph, a table, or one row of a table."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for block in re.split(r"\n{2,}", page.read_text(encoding="utf-8")):
            for row in [line for line in block.splitlines() if "tail:N" in line]:
                whole_row = row.startswith("|") and "full" in row
                yield page.name, row if whole_row else block


def test_who_lists_the_forms_of_communication_lists_all(parser):
    found = list(_lists_of_forms())
    assert {page for page, _ in found} >= {"teams.md", "tools.md", "math.md", "codeforces.md"}
    for name in ("train", "eval", "play"):
        help_ = parser._subparsers._group_actions[0].choices[name]._option_string_actions["--communication"].help
        found.append((f"marft {name} --help", re.sub(r"[\w:]+", r'"\g<0>"', help_)))
    missing = {(page, form) for page, text in found for form in FORMS if not re.search(rf'["`]{form}["`]', text)}
    assert missing == set()
    assert {"tail:N" if form.startswith("tail:") else form for form in benchmarked} == set(FORMS)


# -------------------------------------------------------------------- tables


def test_every_field_of_an_outcome_has_a_row_on_the_page_of_tasks():
    page = (ROOT / "docs/tasks.md").read_text(encoding="utf-8")
    fields = [field.name for field in dataclasses.fields(marft_envs.Outcome)]
    assert [name for name in fields if not re.search(rf"^\| `{name}` \|", page, re.MULTILINE)] == []


def test_the_sizes_of_embedded_sets_are_those_of_the_manifest():
    text = (ROOT / "docs/data.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| `(\w+)` \|.*?(\d+) / (\d+)", text, re.MULTILINE)
    assert found
    for name, train, test in found:
        sets = [entry["splits"] for key, entry in envs_data.manifest().items() if key.split("/")[0] == name]
        rows = tuple(sum(splits[split]["rows"] for splits in sets) for split in ("train", "test"))
        assert (int(train), int(test)) == rows, name


def test_the_readme_names_every_registered_task_and_team():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("An id is a [task]")[2].partition(" All are environments")[0]
    tasks, teams = section.partition("Tasks are ")[2].split("Teams are ")
    ours = [marft_envs.spec(id) for id in marft_envs.envs() if id.startswith("marft/")]
    ours = [spec for spec in ours if spec.plugin not in UNLISTED]
    assert set(re.findall(r"`(\w+)`", tasks)) == {spec.task for spec in ours}
    ours = [spec for spec in ours if spec.team in PRESETS]  # `shards` has teams of its own, which its page lists
    assert set(re.findall(r"`(\w+)`", teams)) == {spec.team for spec in ours}
    presets = (ROOT / "docs/teams.md").read_text(encoding="utf-8")
    assert {spec.team for spec in ours if not re.search(rf"^\| `{spec.team}` \|", presets, re.MULTILINE)} == set()


def test_the_readme_keeps_a_place_for_results():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(r"<!-- results:begin -->\n.*?<!-- results:end -->", text, re.DOTALL)


# --------------------------------------------------------------------- links


@pytest.mark.parametrize("page", [*PAGES, "CHANGELOG.md"])
def test_links_within_the_repository_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        linked = ((ROOT / page).parent / file).resolve() if file else ROOT / page
        assert linked.is_file(), f"{page}: {target}"
        if anchor:
            assert anchor in _anchors(linked.read_text(encoding="utf-8")), f"{page}: {target}"


def _anchors(text):
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_index_has_a_row_for_every_page():
    """The rows are the navigation of the site. A folder with an index of its own needs one row."""
    assert f"({INDEX})" in (ROOT / "README.md").read_text(encoding="utf-8")
    rows = set(rows_of_the_index())
    folders = tuple(row.removesuffix("README.md") for row in rows if row.endswith("/README.md"))
    assert [page for page in DOCS if page not in rows and page != INDEX and not page.startswith(folders)] == []
