"""The project's own files: continuous integration, hooks, citation, templates, the version."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import tomllib
from datetime import date
from fnmatch import fnmatchcase
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from tests.house.house_pages import ROOT

PACKAGES = ("marft_envs", "marft_agents", "baselines", "envs_data")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _yaml(path):
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def _lines(path):
    return (ROOT / path).read_text(encoding="utf-8").splitlines()


def _pins():
    return dict(line.split("==") for line in _lines("constraints.txt") if line and not line.startswith("#"))


# -------------------------------------------------------------- GitHub Actions


@pytest.fixture(scope="module")
def jobs():
    return _yaml(".github/workflows/ci.yml")["jobs"]


def _commands(job):
    return [step["run"] for step in job["steps"] if "run" in step]


def test_ci_runs_the_local_script_as_root_with_the_python_of_the_matrix(jobs):
    test = jobs["test"]
    assert _commands(test) == [
        'sudo env "PATH=$PATH" PYTHON=python${{ matrix.python }} COVERAGE=${{ matrix.coverage }} .ci/run'
    ]
    assert test["runs-on"].startswith("ubuntu")
    assert test["strategy"]["fail-fast"] is False
    setup = [step["with"] for step in test["steps"] if step.get("uses", "").startswith("actions/setup-python@")]
    assert setup == [{"python-version": "${{ matrix.python }}"}]
    assert re.search(r"^PYTHON \?= ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_ci_runs_on_the_versions_that_the_project_claims(jobs):
    tested = jobs["test"]["strategy"]["matrix"]["python"]
    prefix = "Programming Language :: Python :: 3."
    claimed = ["3." + line.removeprefix(prefix) for line in PROJECT["classifiers"] if line.startswith(prefix)]
    assert tested == claimed
    assert all(isinstance(version, str) for version in tested)  # 3.10 is not 3.1
    supported = SpecifierSet(PROJECT["requires-python"])
    assert all(version in supported for version in tested)
    oldest = min(int(version.removeprefix("3.")) for version in tested)
    assert f"3.{oldest - 1}" not in supported


def test_ci_builds_installs_and_uploads_wheel_and_sdist(jobs):
    build = jobs["build"]
    commands = "\n".join(_commands(build))
    assert "python -m build\n" in commands  # without flags: the sdist, and the wheel of it
    assert "--constraint constraints.txt build\n" in commands
    assert "build" in _pins()
    assert "pip install --constraint constraints.txt dist/*.whl" in commands
    assert "marft data check" in commands  # the wheel has the data
    uploads = [step["with"] for step in build["steps"] if step.get("uses", "").startswith("actions/upload-artifact@")]
    assert uploads == [{"name": "dist", "path": "dist/", "if-no-files-found": "error"}]


def test_the_wheel_has_the_data_and_neither_its_generators_nor_other_libraries():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    find, patterns = settings["packages"]["find"], settings["package-data"]["envs_data"]
    folders = {path.parent.relative_to(ROOT) for name in PACKAGES for path in (ROOT / name).rglob("*.py")}
    chosen = {
        folder
        for folder in folders
        if any(fnmatchcase(".".join(folder.parts), pattern) for pattern in find["include"])
        and not any(fnmatchcase(".".join(folder.parts), pattern) for pattern in find["exclude"])
    }
    repository_only = ("envs_data/build", "baselines/third_party", "marft_envs/sandbox/attacks")
    generators = {folder for folder in folders if folder.as_posix().startswith(repository_only)}
    assert len(generators) > 3
    assert folders - chosen == generators
    files = {
        path.relative_to(ROOT / "envs_data") for pattern in patterns for path in (ROOT / "envs_data").glob(pattern)
    }
    assert {Path("manifest.json"), *map(Path, _data_files())} < files
    assert [path for path in files if path.parts[0] == "build"] == []


def _data_files():
    for entry in json.loads((ROOT / "envs_data" / "manifest.json").read_text(encoding="utf-8")).values():
        for part in (*entry["splits"].values(), *entry.get("attachments", {}).values()):
            yield part["file"]


def test_ci_may_write_nothing_and_pins_each_action_to_a_version(jobs):
    assert _yaml(".github/workflows/ci.yml")["permissions"] == {"contents": "read"}
    used = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]
    assert [name for name in used if not re.fullmatch(r"actions/[\w-]+@v\d+", name)] == []


# -------------------------------------------------------------------- release


@pytest.fixture(scope="module")
def release():
    return _yaml(".github/workflows/release.yml")["jobs"]


def test_a_release_is_built_used_and_then_published(release):
    build = "\n".join(_commands(release["build"]))
    assert build.index("GITHUB_REF_NAME") < build.index("python -m build\n") < build.index("tests/distribution.py")
    assert (ROOT / "tests" / "distribution.py").is_file()
    assert release["publish"]["needs"] == "build"
    assert release["attach"]["needs"] == release["docs"]["needs"] == "publish"
    assert any("make docs VERSION=" in command for command in _commands(release["docs"]))


def test_a_release_needs_no_kept_secret_and_each_job_has_the_rights_it_needs(release):
    text = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    assert "secrets." not in text
    assert _yaml(".github/workflows/release.yml")["permissions"] == {"contents": "read"}
    rights = {name: job.get("permissions") for name, job in release.items()}
    write = {"contents": "write"}
    assert rights == {"build": None, "publish": {"id-token": "write"}, "attach": write, "docs": write}
    used = {step["uses"] for job in release.values() for step in job["steps"] if "uses" in step}
    theirs = {name for name in used if not re.fullmatch(r"actions/[\w-]+@v\d+", name)}
    assert theirs == {"pypa/gh-action-pypi-publish@release/v1"}


# ------------------------------------------------------------------ pre-commit


def test_hooks_are_the_checks_of_make_lint_from_the_virtual_environment():
    """Local hooks of installed tools: a hook needs no network, and no revision could differ from constraints.txt."""
    (repository,) = _yaml(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    hooks = repository["hooks"]
    assert all(hook["language"] == "system" and "additional_dependencies" not in hook for hook in hooks)
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)[1]
    checks = [line.strip().removeprefix("$(BIN)/").removesuffix(" .") for line in recipe.splitlines()]
    entries = [hook["entry"].removeprefix(".venv/bin/").replace(" --force-exclude", "") for hook in hooks]
    assert entries == [check.replace(" --check", "") for check in checks]
    whole = {hook["id"] for hook in hooks if hook.get("pass_filenames") is False}
    assert whole == {"mypy", "import-linter"}


def test_the_tools_of_the_hooks_are_pinned_and_part_of_the_extra_dev():
    for tool in ("ruff", "mypy", "import-linter", "pre-commit"):
        assert tool in _pins()
        assert any(line.startswith(tool) for line in PROJECT["optional-dependencies"]["dev"])


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


def test_the_urls_of_the_project_stand_in_its_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [url for url in PROJECT["urls"].values() if url not in readme] == []


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
    policy = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
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


def test_the_version_is_written_in_pyproject_and_costs_no_import():
    """Reading it takes the import of importlib.metadata, which these two packages do without."""
    for package in PACKAGES:
        text = (ROOT / package / "__init__.py").read_text(encoding="utf-8")
        assert PROJECT["version"] not in text
    code = "import sys, envs_data, marft_agents, baselines; print('importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
