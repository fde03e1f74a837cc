"""Public names of `marft_envs`, and what the import loads."""

import importlib
import subprocess
import sys

import pytest

import marft_envs

CORE = ("game", "dependency", "communication")
ABOVE = ("grading", "graders", "sandbox", "tasks.tools", "tasks.worlds", "tasks.code", "wrappers", "rollout", "data")


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


def test_importing_the_package_loads_the_core_alone():
    code = "import sys, marft_envs; print(*(m for m in sys.modules if m.split('.')[0] in {MODULES}))"
    code = code.replace("{MODULES}", "('marft_envs', 'marft_common', 'envs_data', 'torch', 'sympy', 'jsonschema')")
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert len([name for name in loaded if not name.startswith("marft_envs.plugins")]) <= 42, loaded
    third_party = {name.split(".")[0] for name in loaded} - {"marft_envs", "marft_common"}
    assert not third_party
    assert not [name for name in loaded if name.startswith(tuple(f"marft_envs.{package}" for package in ABOVE))]
    assert {f"marft_envs.{package}" for package in CORE} <= set(loaded)
