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
WITH_MODELS = ("command_line", "extending", "learner", "own_algorithm", "tasks")
LONG = ("README.md", *(f"docs/{name}.md" for name in WITH_MODELS), *TUTORIAL)
RUN = [(page,) for page in PAGES if page not in (*TUTORIAL, *QUOTING, *AGENTS)] + [TUTORIAL]
OWN_SETTINGS = {"luck.toml": GraderSettings.of, "hotel.toml": ToolFile.read}  # files that are no config of a command


def _text(page):
    return (ROOT / page).read_text(encoding="utf-8")


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
    described = [
        {
            "language": block.language,
            "text": f"import {Path(block.file).stem}" if block.file else block.text,
            "where": block.where,
        }
        for block in examples
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
    own = {"PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", "OMP_NUM_THREADS": "1", "COLUMNS": "100", "NO_COLOR": "1"}
    command = [sys.executable, "-W", "error", *arguments]
    return subprocess.run(
        command, cwd=folder, env=os.environ | own, capture_output=True, encoding="utf-8", timeout=240, check=False
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
    start = blocks("README.md")[0].where
    assert [command.split()[:2] for where, command in commands() if where == start] == [
        ["make", "quickstart"],
        ["make", "test"],
    ]
    text = _text("README.md")
    assert text[: text.index("](docs/quickstart.png)")].count("\n") < 20
    assert text.index("<!-- results:begin -->\n") < text.index("<!-- results:end -->")


def test_the_environment_of_the_readme_conforms(tmp_path):
    (file,) = [block for block in blocks("README.md") if block.file == "my_sums.py"]
    (tmp_path / "my_sums.py").write_text(file.text, encoding="utf-8")
    checked = (
        "import functools, marft_envs, marft_envs.testing as testing, my_sums\n"
        "report = testing.check_environment(functools.partial(marft_envs.make, 'my/sums_trio-v0'), cycles=5)\n"
        "assert report.passed, str(report)"
    )
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
    assert [block.where for page in PAGES for block in blocks(page) if block.language not in known] == []


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


TARGETS = set(re.findall(r"^([a-z-]+):", _text("Makefile"), re.MULTILINE))
EXTRAS = set(tomllib.loads(_text("pyproject.toml"))["project"]["optional-dependencies"])
ARGUMENTS = set(re.findall(r"^ARG (\w+)", _text("Dockerfile"), re.MULTILINE))


@pytest.mark.parametrize(("where", "command"), commands())
def test_every_command_of_the_pages_exists(where, command, parser):
    words = shlex.split(command, comments=True)
    program, *arguments = itertools.dropwhile(re.compile(r"[A-Z_]+=").match, words)  # variables stand first
    if program == "marft":
        _assert_parses(parser, arguments)
        parser.parse_args(arguments)
    elif program == "make":
        assert {argument for argument in arguments if not argument.startswith("ARGS=")} <= TARGETS
    elif program == "pip":
        wanted = re.search(r"^marft\[([\w,]+)\]$", arguments[-1])
        assert arguments[0] == "install", where
        assert wanted is None or set(wanted[1].split(",")) <= EXTRAS, where
    elif program == "ray":
        assert arguments[0] == "start", where
    elif program == "docker":
        assert arguments[0] in ("build", "run"), where
        assert set(re.findall(r"--build-arg (\w+)=", command)) <= ARGUMENTS, where
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
        parser = _subcommands(parser)[rest.pop(0)]
        known |= set(parser._option_string_actions)
    assert flags <= known, "a flag that there is not, or an abbreviated one"


def _subcommands(parser):
    return parser._subparsers._group_actions[0].choices


def test_commands_within_sentences_exist_and_every_command_has_a_line_on_its_page(parser):
    known = set(_subcommands(parser))
    for page in PAGES:
        assert set(re.findall(r"`marft ([a-z][a-z-]*)", _text(page))) <= known, page
    assert known <= set(re.findall(r"^\| `marft ([a-z-]+)\b", _text("docs/command_line.md"), re.MULTILINE))


def _lists_of_forms():
    """Yield (page, text) for each list of the forms of communication: a paragraph, a table, or one row of a table."""
    for page in ("README.md", *DOCS):
        for block in re.split(r"\n{2,}", _text(page)):
            for row in [line for line in block.splitlines() if "tail:N" in line]:
                whole_row = row.startswith("|") and "full" in row
                yield Path(page).name, row if whole_row else block


def test_who_lists_the_forms_of_communication_lists_all(parser):
    found = list(_lists_of_forms())
    assert {page for page, _ in found} >= {"teams.md", "tools.md", "math.md", "codeforces.md"}
    for name in ("train", "eval", "play"):
        help_ = _subcommands(parser)[name]._option_string_actions["--communication"].help
        found.append((f"marft {name} --help", re.sub(r"[\w:]+", r'"\g<0>"', help_)))
    missing = {(page, form) for page, text in found for form in FORMS if not re.search(rf'["`]{form}["`]', text)}
    assert missing == set()
    assert {"tail:N" if form.startswith("tail:") else form for form in benchmarked} == set(FORMS)


# -------------------------------------------------------------------- tables


def test_every_field_of_an_outcome_has_a_row_on_the_page_of_tasks():
    rows = re.findall(r"^\| `(\w+)` \|", _text("docs/tasks.md"), re.MULTILINE)
    assert {field.name for field in dataclasses.fields(marft_envs.Outcome)} <= set(rows)


def test_the_sizes_of_embedded_sets_are_those_of_the_manifest():
    """A row that says `each` gives the size of each family of the set, all others that of the whole."""
    found = re.findall(r"^\| `(\w+)` \|.*?(\d+) / (\d+) \|(.+)", _text("docs/data.md"), re.MULTILINE)
    assert found
    for name, train, test, content in found:
        sets = [entry["splits"] for key, entry in envs_data.manifest().items() if key.split("/")[0] == name]
        rows = [tuple(splits[split]["rows"] for split in ("train", "test")) for splits in sets]
        sizes = set(rows) if " each:" in content else {tuple(map(sum, zip(*rows, strict=True)))}
        assert sizes == {(int(train), int(test))}, name


def test_the_readme_names_every_registered_task_and_team():
    section = _text("README.md").partition("An id is a [task]")[2].partition(" All are environments")[0]
    tasks, teams = section.partition("Tasks are ")[2].split("Teams are ")
    ours = [marft_envs.spec(id) for id in marft_envs.envs() if id.startswith("marft/")]
    ours = [spec for spec in ours if spec.plugin not in UNLISTED]
    assert set(re.findall(r"`(\w+)`", tasks)) == {spec.task for spec in ours}
    ours = {spec.team for spec in ours if spec.team in PRESETS}  # `shards` has teams of its own, which its page lists
    assert set(re.findall(r"`(\w+)`", teams)) == ours
    assert ours <= set(re.findall(r"^\| `(\w+)` \|", _text("docs/teams.md"), re.MULTILINE))


# --------------------------------------------------------------------- links


@pytest.mark.parametrize("page", [*PAGES, "CHANGELOG.md"])
def test_links_within_the_repository_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https://)([^)]+)\)", _text(page)):
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
    assert f"({INDEX})" in _text("README.md")
    rows = set(rows_of_the_index())
    folders = tuple(row.removesuffix("README.md") for row in rows if row.endswith("/README.md"))
    assert [page for page in DOCS if page not in rows and page != INDEX and not page.startswith(folders)] == []
