"""Plugins that come with marft: they register like those of others, and use public names alone."""

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

import marft_envs
from marft_envs import plugins
from marft_envs.registration.plugins import BUNDLED, UNLISTED
from marft_envs.teams.team import PRESETS, Team, TeamError

FOLDERS = [found.name for found in pkgutil.iter_modules(plugins.__path__)]
MODULES = sorted(Path(plugins.__path__[0]).rglob("*.py"))
COUNTS = {"bfcl": 8, "tau2": 6, "reasoning-gym": 300, "plancraft": 2, "textworld-express": 16, "agentdojo": 12}


def foreign_imports(source: str, folder: str) -> list[str]:
    """Return the imports of a module of a plugin that are not public names of `marft_envs`."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith("marft_envs.")]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "marft_envs":
            if node.module.startswith(f"marft_envs.plugins.{folder}"):
                continue
            public = getattr(importlib.import_module(node.module), "__all__", ())
            found += [f"{node.module}.{alias.name}" for alias in node.names if alias.name not in public]
    return found


def test_each_folder_is_a_plugin_in_the_list():
    listed = [plugin.value.removeprefix("marft_envs.plugins.").removesuffix(":register") for plugin in BUNDLED]
    assert sorted(listed) == sorted(FOLDERS)
    assert set(COUNTS) >= UNLISTED


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(plugins.__path__[0])))
def test_a_plugin_imports_public_names_alone(module):
    folder = module.relative_to(plugins.__path__[0]).parts[0]
    assert foreign_imports(module.read_text(encoding="utf-8"), folder) == []


@pytest.mark.parametrize(
    "line",
    [
        "import marft_envs.spaces",
        "from marft_envs.tasks.tools.session import told_of",
        "from marft_envs.tasks.tools import _private",
        "from marft_envs.plugins.bfcl import load",
    ],
)
def test_an_import_of_another_name_would_be_found(line):
    assert foreign_imports(f"def later():\n    {line}\n", "tau2") != []
    assert foreign_imports("from marft_envs import Team\nfrom marft_envs.plugins.tau2 import files", "tau2") == []


def test_each_plugin_registers_its_ids_under_its_name():
    found = [marft_envs.spec(name).plugin for name in marft_envs.envs()]
    assert {name: found.count(name) for name in COUNTS} == COUNTS


@pytest.mark.parametrize("name", PRESETS)
def test_the_presets_of_a_plugin_are_in_its_folder(name):
    environment = marft_envs.spec("marft/bfcl_duo-v0").entry_point
    team = environment.read_team(name)
    assert team == environment.read_team(team.to_dict())
    assert any("*" in profile.tools for profile in team.profiles)  # all functions of a question
    with pytest.raises(TeamError, match=rf"no preset team '{name}'; there are none in language 'zh'"):
        Team.preset(name, "zh", environment.family)
