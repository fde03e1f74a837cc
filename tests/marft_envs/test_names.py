"""Public names of `marft_envs`, its modules at their old import paths, and what the import loads."""

import importlib
import pickle
import subprocess
import sys

import pytest

import marft_envs
from marft_envs._moved import MOVED

CORE = ("game", "dependency", "communication")
ABOVE = ("grading", "graders", "sandbox", "tasks.tools", "tasks.worlds", "tasks.code", "wrappers", "rollout", "data")
OLD_SUBMODULES = {
    "tools.tool": ("tasks.tools.tool",),
    "tools.connectors.http": ("tasks.tools.connectors.http",),
    "worlds.shop": ("tasks.worlds.shop",),
}


def test_all_public_names_are_there_and_are_what_dir_lists():
    assert all(getattr(marft_envs, name) is not None for name in marft_envs.__all__)
    assert set(marft_envs.__all__) <= set(dir(marft_envs))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = marft_envs.nothing_of_the_kind


@pytest.mark.parametrize("package", ["dependency", "communication"])
def test_an_unknown_name_of_the_core_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = importlib.import_module(f"marft_envs.{package}").nothing_of_the_kind


@pytest.mark.parametrize(("old", "news"), [*MOVED.items(), *OLD_SUBMODULES.items()])
def test_a_module_is_found_at_its_old_path(old, news, monkeypatch):
    name = f"marft_envs.{old}"
    monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.warns(DeprecationWarning, match=" now$") as caught:  # of its old package, too
        module = importlib.import_module(name)
    assert f"{name} is marft_envs.{news[0]} now" in {str(warning.message) for warning in caught}
    for new in news:
        current = importlib.import_module(f"marft_envs.{new}")
        public = [key for key in vars(current) if not key.startswith("_")]
        assert all(getattr(module, key) is getattr(current, key) for key in public), name


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_old_package_has_no_modules_that_never_were():
    with pytest.raises(ModuleNotFoundError, match="nothing_of_the_kind"):
        importlib.import_module("marft_envs.tools.nothing_of_the_kind")


def test_a_renamed_class_is_found_at_its_old_name_with_a_warning():
    from marft_envs.grading import grade

    with pytest.warns(DeprecationWarning, match="grade.Verdict is called Equivalence now"):
        assert grade.Verdict is grade.Equivalence


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("marft_envs.trace", "Turn"),
        ("marft_envs.task", "Task"),
        ("marft_envs.game", "FlexMG"),
        ("marft_envs.dependency", "Schedule"),
        ("marft_envs.dependency", "Handoff"),
        ("marft_envs.communication", "record"),
        ("marft_envs.tasks.code", "CodeTasks"),
        ("marft_envs.tools.task_set", "ToolTasks"),
        ("marft_envs.factory", "register_task"),
    ],
)
def test_a_class_pickled_under_its_old_path_is_found(module, name):
    found = pickle.loads(b"c" + module.encode() + b"\n" + name.encode() + b"\n.")
    assert found.__name__ == name
    assert pickle.loads(pickle.dumps(found)) is found


def test_importing_the_package_loads_the_core_alone():
    code = "import sys, marft_envs; print(*(m for m in sys.modules if m.split('.')[0] in {MODULES}))"
    code = code.replace("{MODULES}", "('marft_envs', 'marft_common', 'envs_data', 'torch', 'sympy', 'jsonschema')")
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert len([name for name in loaded if not name.startswith("marft_envs.plugins")]) <= 40, loaded
    third_party = {name.split(".")[0] for name in loaded} - {"marft_envs", "marft_common"}
    assert not third_party
    assert not [name for name in loaded if name.startswith(tuple(f"marft_envs.{package}" for package in ABOVE))]
    assert {f"marft_envs.{package}" for package in CORE} <= set(loaded)


@pytest.mark.parametrize("old", ["live_game", "rollout.running_game"])
def test_a_renamed_class_is_found_in_its_old_module_with_a_warning(old, monkeypatch):
    monkeypatch.delitem(sys.modules, f"marft_envs.{old}", raising=False)
    with pytest.warns(DeprecationWarning, match="is marft_envs.rollout.reporting_game now"):
        module = importlib.import_module(f"marft_envs.{old}")
    with pytest.warns(DeprecationWarning, match="LiveGame is called ReportingGame now"):
        assert module.LiveGame is module.ReportingGame
