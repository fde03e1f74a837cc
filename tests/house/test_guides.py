"""The guides for contributors are true: paths, names, drawings, the order of calls."""

from __future__ import annotations

import ast
import pkgutil
import re
import sys
from functools import cache, partial
from importlib.util import find_spec

import grimp
import pytest

from tests.house.house_pages import PAGES, ROOT, blocks

PACKAGES = ("marft_envs", "marft_agents", "marft_common", "baselines", "benchmarks", "docs_generator", "envs_data")
GUIDES = ("CONTRIBUTING.md", "SECURITY.md", "docs/glossary.md", "docs/architecture.md")
PATH = re.compile(rf"`((?:{'|'.join(PACKAGES)}|tests|docs|\.ci|\.github)/[\w./]*)`")
DOTTED = re.compile(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)+)`")
NAME = re.compile(r"`(\w*[A-Z_]\w*(?:\.\w+)?|[a-z]+)`")


def _text(page):
    return (ROOT / page).read_text(encoding="utf-8")


@cache
def _names(path):
    """Return the names that a Python file defines or imports, with the members of its classes as `Class.member`."""
    found = set()
    for node in ast.parse(_text(path)).body:
        found |= _bound(node)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{name}" for member in node.body for name in _bound(member)}
    return found


def _bound(node):
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name for alias in node.names}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {target.id for target in targets if isinstance(target, ast.Name)}


# ------------------------------------------------------------- paths and names


def test_paths_exist():
    found = [(page, path) for page in PAGES for path in PATH.findall(_text(page))]
    assert [(page, path) for page, path in found if not (ROOT / path).exists()] == []
    assert len(found) > 100


@pytest.mark.parametrize("page", GUIDES)
def test_dotted_names_exist(page):
    for dotted in DOTTED.findall(_text(page)):
        pkgutil.resolve_name(dotted)


def _rows(text, columns):
    """Return the rows of the tables of a text that have so many columns, without headings."""
    rows = [re.split(r" \| ", line.strip("| ")) for line in text.splitlines() if line.startswith("| ")]
    return [row for row in rows if len(row) == columns]


def _section(page, heading):
    return _text(page).split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_where_to_put_a_thing_names_what_is_there():
    """A name in a row is one of the Python files of that row."""
    rows = _rows(_section("CONTRIBUTING.md", "Where do I put ..."), columns=4)[1:]
    titles = " ".join(row[0] for row in rows)
    wanted = "task environment algorithm grader world dependency benchmark backend language"
    assert [word for word in wanted.split() if word not in titles] == []
    named = 0
    for row in rows:
        line = " | ".join(row)
        known = set().union(*(_names(path) for path in PATH.findall(line) if path.endswith(".py")))
        names = NAME.findall(line)
        assert [name for name in names if name not in known] == [], row[0]
        named += len(names)
    assert named > len(rows)


def test_the_modules_of_the_architecture_exist():
    """A cell of the table names modules of one package; the package stands before the first."""
    for cell, _ in _rows(_section("docs/architecture.md", "Where things are"), columns=2)[1:]:
        first, *others = re.findall(r"`([\w.]+)`", cell)
        package = first.split(".")[0]
        dotted = [first, *(f"{package}.{name}" for name in others)]
        assert [name for name in dotted if not getattr(find_spec(name), "origin", None)] == []


# ----------------------------------------------------------------- drawings


def test_the_drawing_of_the_packages_shows_imports_that_there_are():
    drawing = blocks("docs/architecture.md")[0].text
    groups, package = {}, ""
    for subgraph, node, names in re.findall(r'^ *(?:subgraph (\w+)\[.*|(\w+)\["(.+)"\])$', drawing, re.MULTILINE):
        package = subgraph or package
        if node:
            groups[node] = [f"{package}.{name}" for name in names.split(", ")]
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    modules = {module for group in groups.values() for module in group}
    assert modules <= graph.modules
    assert {module.split(".")[0] for module in modules} == set(PACKAGES)
    inside = {node: set(group).union(*map(graph.find_descendants, group)) for node, group in groups.items()}

    def imported_by(modules):
        return set().union(*map(graph.find_modules_directly_imported_by, modules))

    arrows = re.findall(r"^ *(\w+) --> (\w+)$", drawing, re.MULTILINE)
    assert len(arrows) > len(PACKAGES)
    for source, target in arrows:
        imported = imported_by(inside[source])
        imported |= imported_by(imported & set(PACKAGES))  # what a package exports is reached through it
        assert imported & inside[target], (source, target)


def test_the_functions_of_the_other_drawings_exist():
    """A label is `module.function` of marft_agents, or `Class.method` of either package."""
    paths = [path.relative_to(ROOT) for package in PACKAGES[:2] for path in (ROOT / package).rglob("*.py")]
    members = set().union(*(_names(str(path)) for path in paths if "programs" not in path.parts))
    stems = {path.stem for path in paths}
    drawings = "".join(block.text for block in blocks("docs/architecture.md")[1:3])
    labels = set(re.findall(r'\["(.+?)"\]', drawings))
    assert len(labels) > 10
    for label in labels:
        owner, name = label.split(".")
        assert label in members if owner[0].isupper() else name in members and owner in stems, label


# ------------------------------------------------------------ order of calls


def _first_calls(run):
    """Run a function; return (file, qualified name) of our functions in the order in which they are first called."""
    seen = {}

    def watch(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(ROOT)):
            seen.setdefault((code.co_filename[len(str(ROOT)) + 1 :], code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(before)
    return list(seen)


def test_one_turn_calls_what_is_listed_in_that_order(tmp_path):
    import marft_envs
    from marft_agents.generation.sampling import SamplingParams
    from marft_agents.learning.learner import Learner
    from marft_agents.learning.settings import LearnerSettings
    from marft_agents.runs.run_folder import RunFolder
    from marft_agents.runs.schedule import TrainingSchedule
    from marft_agents.runs.trainer import Trainer
    from tests.helpers.fakes import word_team

    make_env = partial(marft_envs.make, "marft/math_duo-v0", data="embedded:stories")
    team = word_team(make_env().possible_agents, sampling=SamplingParams(max_new_tokens=4))
    folder = RunFolder(tmp_path / "run", {})
    schedule = TrainingSchedule(updates=1, groups=1, group_size=2)
    trainer = Trainer(make_env, team, Learner(team, LearnerSettings()), schedule, folder=folder)
    called = _first_calls(trainer.step)
    folder.close()
    listed = _text("CONTRIBUTING.md").split("<!-- calls:begin -->")[1].split("<!-- calls:end -->")[0]
    wanted = [(row[0].strip("`"), row[1].strip("`")) for row in _rows(listed, columns=3)[1:]]
    assert len(wanted) > 30
    assert [call for call in wanted if call not in called] == [], "not called"
    assert sorted(wanted, key=called.index) == wanted, "called in another order"


# ---------------------------------------------------------------- glossary


def test_the_glossary_has_one_line_and_one_link_per_term_and_quotes_names_that_the_code_has():
    """A word of the code that differs from the term is a class of the linked module or of marft_agents."""
    rows = _rows(_text("docs/glossary.md"), columns=3)[1:]
    terms = [row[0].replace("*", "").casefold() for row in rows]
    assert 40 <= len(rows) <= 70
    assert terms == sorted(set(terms))
    for term, meaning, where in rows:
        assert re.fullmatch(r"\[[\w .]+\]\([\w./#-]+\)", where), term
        assert meaning.endswith("."), term
        assert len(meaning.split()) <= 25, term
        linked = re.search(r"\((?:\.\./)?([\w./]+)", where)[1]
        homes = [home for home in (linked, "marft_agents/trajectory.py") if home.endswith(".py")]
        known = set().union(*map(_names, homes))
        assert set(re.findall(r"`([A-Z]\w+)`", meaning)) <= known, term
