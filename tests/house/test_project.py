"""The project's own files: continuous integration, hooks, citation, templates, the version."""

from __future__ import annotations

import fnmatch
import importlib
import re
import subprocess
import sys
import tomllib
from datetime import date
from importlib import metadata

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.house.house_pages import ROOT

PACKAGES = ("marft_envs", "marft_agents", "baselines", "envs_data")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _text(path):
    return (ROOT / path).read_text(encoding="utf-8")


def _yaml(path):
    return yaml.safe_load(_text(path))


PINS = dict(line.split("==") for line in _text("constraints.txt").splitlines() if line and not line.startswith("#"))


# -------------------------------------------------------------- GitHub Actions


@pytest.fixture(scope="module")
def jobs():
    return _yaml(".github/workflows/ci.yml")["jobs"]


@pytest.fixture(scope="module")
def release():
    return _yaml(".github/workflows/release.yml")["jobs"]


def _commands(job):
    return [step["run"] for step in job["steps"] if "run" in step]


def _settings(job, action):
    """Return the inputs of each use of an action of GitHub's."""
    return [step["with"] for step in job["steps"] if step.get("uses", "").startswith(f"actions/{action}@")]


@pytest.mark.parametrize(("name", "theirs"), [("ci", set()), ("release", {"pypa/gh-action-pypi-publish@release/v1"})])
def test_a_workflow_needs_no_kept_secret_may_write_nothing_and_pins_each_action_to_a_version(name, theirs):
    path = f".github/workflows/{name}.yml"
    workflow = _yaml(path)
    assert "secrets." not in _text(path)
    assert workflow["permissions"] == {"contents": "read"}
    used = {step["uses"] for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step}
    assert {one for one in used if not re.fullmatch(r"actions/[\w-]+@v\d+", one)} == theirs


def test_ci_runs_the_local_script_as_root_with_the_python_of_the_matrix(jobs):
    test = jobs["test"]
    assert _commands(test) == [
        'sudo env "PATH=$PATH" PYTHON=python${{ matrix.python }} COVERAGE=${{ matrix.coverage }} .ci/run'
    ]
    assert test["runs-on"].startswith("ubuntu")
    assert test["strategy"]["fail-fast"] is False
    assert _settings(test, "setup-python") == [{"python-version": "${{ matrix.python }}"}]
    assert re.search(r"^PYTHON \?= ", _text("Makefile"), re.MULTILINE)


def test_ci_runs_on_the_versions_that_the_project_claims(jobs):
    tested = jobs["test"]["strategy"]["matrix"]["python"]
    prefix = "Programming Language :: Python :: 3."
    claimed = ["3." + line.removeprefix(prefix) for line in PROJECT["classifiers"] if line.startswith(prefix)]
    assert tested == claimed  # strings: 3.10 is not 3.1
    before_the_oldest = f"3.{min(int(version.removeprefix('3.')) for version in tested) - 1}"
    supported = SpecifierSet(PROJECT["requires-python"])
    assert [version for version in [before_the_oldest, *tested] if version in supported] == tested


def test_ci_builds_installs_and_uploads_wheel_and_sdist(jobs):
    build = jobs["build"]
    commands = "\n".join(_commands(build))
    assert "python -m build\n" in commands  # without flags: the sdist, and the wheel of it
    assert "--constraint constraints.txt build\n" in commands
    assert "pip install --constraint constraints.txt dist/*.whl" in commands
    assert "marft data check" in commands  # the wheel has the data
    assert _settings(build, "upload-artifact") == [{"name": "dist", "path": "dist/", "if-no-files-found": "error"}]


def test_the_wheel_has_all_packages_but_generators_attacks_and_other_libraries():
    find = tomllib.loads(_text("pyproject.toml"))["tool"]["setuptools"]["packages"]["find"]
    folders = {path.parent.relative_to(ROOT) for name in PACKAGES for path in (ROOT / name).rglob("*.py")}
    packages = {".".join(folder.parts) for folder in folders}
    included = {package for pattern in find["include"] for package in fnmatch.filter(packages, pattern)}
    left_out = packages - included | {
        package for pattern in find["exclude"] for package in fnmatch.filter(packages, pattern)
    }
    repository_only = ("envs_data.build", "baselines.third_party", "marft_envs.sandbox.attacks")
    assert left_out == {package for package in packages if package.startswith(repository_only)}
    assert len(left_out) > 3


# ------------------------------------------------------------------ pre-commit


def test_hooks_are_the_checks_of_make_lint_from_the_virtual_environment():
    """Local hooks of installed tools: a hook needs no network, and no revision could differ from constraints.txt."""
    (repository,) = _yaml(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    hooks = repository["hooks"]
    assert all(hook["language"] == "system" and "additional_dependencies" not in hook for hook in hooks)
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", _text("Makefile"), re.MULTILINE)[1]
    checks = [line.strip().removeprefix("$(BIN)/").removesuffix(" .") for line in recipe.splitlines()]
    entries = [hook["entry"].removeprefix(".venv/bin/").replace(" --force-exclude", "") for hook in hooks]
    assert entries == [check.replace(" --check", "") for check in checks]
    whole = {hook["id"] for hook in hooks if hook.get("pass_filenames") is False}
    assert whole == {"mypy", "import-linter"}


# ------------------------------------------------------- requirements and pins


def test_what_builds_and_checks_is_pinned_and_the_hooks_tools_are_part_of_the_extra_dev():
    tools = {"ruff", "mypy", "import-linter", "pre-commit"}
    assert {"torch", "pytest", "build", *tools} <= PINS.keys()
    assert tools <= {Requirement(line).name for line in PROJECT["optional-dependencies"]["dev"]}


def test_pins_satisfy_what_the_project_asks_for():
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    asked = [Requirement(line) for group in groups for line in group]
    assert [str(one) for one in asked if one.name in PINS and not one.specifier.contains(PINS[one.name])] == []


# ------------------------------------------------------ citation and templates


def test_the_citation_names_this_version_and_the_paper():
    """Its form was checked with the schema of the Citation File Format 1.2.0; here, what changes with a release."""
    citation = _yaml("CITATION.cff")
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)  # what the schema asks for
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert isinstance(citation.get("date-released", date.today()), date)
    (paper,) = citation["references"]
    assert {"type", "title", "authors"} <= set(paper)
    assert paper["url"] == PROJECT["urls"]["Paper"] == "https://arxiv.org/abs/2504.16129"


def test_the_urls_of_the_project_stand_in_its_readme_and_its_licence_is_there():
    assert [url for url in PROJECT["urls"].values() if url not in _text("README.md")] == []
    assert _text("LICENSE").startswith("MIT License")
    assert PROJECT["license"] == "MIT"


@pytest.mark.parametrize("name", ["bug", "environment", "algorithm"])
def test_issue_forms_are_complete(name):
    form = _yaml(f".github/ISSUE_TEMPLATE/{name}.yml")
    assert {"name", "description", "body"} <= set(form)
    fields = [element for element in form["body"] if element["type"] != "markdown"]
    assert {element["type"] for element in form["body"]} <= {"markdown", "textarea", "input"}
    ids = [field["id"] for field in fields]
    assert len(set(ids)) == len(ids) >= 4
    assert all({"label", "description"} <= set(field["attributes"]) for field in fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_the_security_policy_names_a_private_way_and_no_address():
    policy = _text("SECURITY.md")
    assert "private vulnerability reporting" in policy
    assert not re.search(r"[\w.]+@[\w.]+\.\w+", policy)
    for backend in ("docker", "bubblewrap", "landlock", "unsafe"):
        assert f"`{backend}`" in policy


# ---------------------------------------------------------------- the version


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_has_the_version_of_the_distribution(package):
    module = importlib.import_module(package)
    assert module.__version__ == metadata.version("marft")
    with pytest.raises(AttributeError, match=f"{package}.* attribute '?missing"):
        _ = module.missing


def test_the_version_is_the_newest_of_the_changelog_written_in_pyproject_and_costs_no_import():
    """Reading it takes the import of importlib.metadata, which these two packages do without."""
    assert re.search(r"^## \[(\d+\.\d+\.\d+)\]", _text("CHANGELOG.md"), re.MULTILINE)[1] == PROJECT["version"]
    assert [package for package in PACKAGES if PROJECT["version"] in _text(f"{package}/__init__.py")] == []
    code = "import sys, envs_data, marft_agents, baselines; print('importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
