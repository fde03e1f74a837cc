"""The bridges with the real packages: the files beside this one named `with_*`, in a virtual environment of their own.

What they bring does not fit beside what the other tests need: verifiers pins an older `mcp`.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from baselines.third_party.virtual_environments import LIBRARIES, ROOT, Library, cache_folder, prepare
from marft_envs.bridges import openenv, textarena, trl, verifiers

REQUIREMENTS = tuple(bridge.REQUIREMENT for bridge in (openenv, textarena, trl, verifiers))
FILES = sorted(Path(__file__).parent.glob("with_*.py"))


@pytest.fixture(scope="module")
def python():
    """Make the environment, once; it stays in the cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(LIBRARIES, "bridges", Library("bridges", (), also=(*REQUIREMENTS, "peft", "pytest")))
        return prepare("bridges", cache_folder() / "bridges")


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_bridge_with_its_package(file, python):
    command = [str(python), "-m", "pytest", "-p", "no:cacheprovider", "--color=no", str(file)]
    settings = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout


def test_every_bridge_is_tested_and_the_page_names_its_bounds():
    page = (ROOT / "docs/bridges.md").read_text(encoding="utf-8")
    assert {file.stem.removeprefix("with_") for file in FILES} == {"openenv", "textarena", "trl", "verifiers", "page"}
    assert [requirement for requirement in REQUIREMENTS if f"`{requirement}`" not in page] == []
