"""Plugins as they are installed: found, and whatever is wrong with one is reported and stops nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
GAME = "tests.helpers.third_party_game:ThirdPartyGame"
LOOK = """
import json, sys, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import marft_envs
    found = {id: marft_envs.spec(id).plugin for id in marft_envs.envs()}
print(json.dumps([found, [str(one.message) for one in caught]]))
"""


@pytest.fixture
def install(tmp_path):
    """Return a function that lays a package with entry points where Python finds it."""

    def install(name, entry_points, source="", requires=""):
        info = tmp_path / f"{name}-1.dist-info"
        info.mkdir()
        asked = f"Requires-Dist: {requires}\n" if requires else ""
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n{asked}")
        (info / "entry_points.txt").write_text(f"[marft_envs.plugins]\n{entry_points}\n")
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))

    install.folder = tmp_path
    return install


def run(install, program):
    path = os.pathsep.join([str(install.folder), str(ROOT)])
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def look(install):
    return json.loads(run(install, LOOK))


def test_a_plugin_is_named_with_what_it_registers(install):
    install(
        "sums",
        "of sums = sums:add",
        "def add():\n    import marft_envs\n    marft_envs.register('sums/duo-v0', 'm:e')\n",
    )
    found, warned = look(install)
    assert found["sums/duo-v0"] == "of sums"
    assert found["marft/math_duo-v0"] == ""
    assert warned == []


def test_of_two_plugins_with_one_id_the_second_is_reported(install):
    source = "import marft_envs\nmarft_envs.register('one/id-v0', 'm:e')\n"
    install("first_come", "first = first_come", source)
    install("late_comer", "late = late_comer", source)
    found, warned = look(install)
    winner, loser = ("first", "late") if found["one/id-v0"] == "first" else ("late", "first")
    assert len(warned) == 1
    assert f"the plugin {loser!r}" in warned[0]
    assert f"'one/id-v0' is taken by the plugin {winner!r}; choose another" in warned[0]


def test_a_plugin_cannot_take_an_id_of_ours(install):
    install("bold", "bold = bold", "import marft_envs\nmarft_envs.register('marft/math_duo-v0', 'm:e')\n")
    found, warned = look(install)
    assert found["marft/math_duo-v0"] == ""
    assert "is taken by" in warned[0]


def test_a_plugin_that_clashes_with_gymnasium_is_reported(install):
    source = """
        import gymnasium, marft_envs
        gymnasium.register("bold/toy-v0", "somewhere:Else")
        marft_envs.register("bold/toy-v0", "m:e")
    """
    install("bold", "bold = bold", source)
    found, [warned] = look(install)
    assert "bold/toy-v0" not in found
    assert "'bold/toy-v0' is taken with Gymnasium by 'somewhere:Else'; choose another" in warned


def test_a_plugin_for_another_version_of_ours_says_which_it_wants(install):
    source = """
        import marft_envs
        marft_envs.register("future/early-v0", "m:e")
        from marft_envs import something_of_the_future
    """
    install("future", "future = future", source, requires="marft >=99")
    found, [warned] = look(install)
    assert "of future 1.5, which asks for marft >=99 (this is " in warned
    assert "ImportError: cannot import name 'something_of_the_future'" in warned
    assert "registered before it failed: future/early-v0" in warned
    assert found["future/early-v0"] == "future"


def test_another_package_named_like_ours_is_no_requirement_of_ours(install):
    install("odd", "odd = odd", "raise RuntimeError('no luck')", requires="marft-tools >=99")
    _, [warned] = look(install)
    assert "of odd 1.5 could not be loaded: RuntimeError: no luck" in warned


def test_entry_points_that_cannot_be_read_hide_no_other_plugin(install):
    install("garbled", "a line without a sign")
    install("sums", "sums = sums", "import marft_envs\nmarft_envs.register('sums/duo-v0', 'm:e')\n")
    found, [warned] = look(install)
    assert "sums/duo-v0" in found
    assert "the entry points of the package 'garbled' cannot be read" in warned


def test_a_newer_version_of_a_plugin_is_what_an_id_without_version_means(install):
    install(
        "more",
        "more = more",
        f"import marft_envs\nmarft_envs.register('marft/math_duo-v1', {GAME!r})\n",
    )
    program = "import marft_envs; print(marft_envs.spec('marft/math_duo').id, marft_envs.spec('marft/math_duo-v0').id)"
    assert run(install, program).split() == ["marft/math_duo-v1", "marft/math_duo-v0"]


PLAY = """
from functools import partial
import gymnasium, marft_envs, pettingzoo
from marft_envs.testing import check_environment

report = check_environment(partial(marft_envs.make, "third_party/numbers-v0"), cycles=5)
assert report.passed, str(report)
env = gymnasium.make("third_party/numbers-v0", turns=1, disable_env_checker=True)
env.reset(seed=1)
env.step("1")
print(env.step("2")[1:4])
if hasattr(pettingzoo, "make"):
    assert pettingzoo.make("aec", "third_party/numbers-v0").unwrapped.turns == 2
    assert isinstance(pettingzoo.make("parallel", "third_party/numbers-v0"), marft_envs.TurnParallel)
try:
    marft_envs.make("third_party/numbers-v0", turn=1)
except TypeError as error:
    print(error)
"""


def test_a_plugin_brings_an_environment_class_of_its_own(install):
    source = f"import marft_envs\nmarft_envs.register('third_party/numbers-v0', {GAME!r}, kwargs={{'turns': 2}})\n"
    install("numbers_plugin", "numbers = numbers_plugin", source)
    assert run(install, PLAY).splitlines() == [
        "(1.0, True, False)",
        "third_party/numbers-v0: unknown keyword 'turn'; did you mean turns?",
    ]
