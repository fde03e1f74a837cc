"""Public names of `marft_agents`, which load with their module."""

import subprocess
import sys

import pytest

import marft_agents


def test_all_public_names_are_there_and_are_what_dir_lists():
    assert all(getattr(marft_agents, name) is not None for name in marft_agents.__all__)
    assert set(marft_agents.__all__) <= set(dir(marft_agents))
    assert {"Trainer", "Learner", "build_team", "evaluate", "LearnerSettings", "Trajectory"} <= set(
        marft_agents.__all__
    )


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = marft_agents.nothing_of_the_kind


def test_importing_the_package_loads_neither_torch_nor_its_modules():
    code = "import sys, marft_agents; print(sorted(m for m in sys.modules if m.startswith(('torch', 'marft_agents.'))))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == "[]\n"
