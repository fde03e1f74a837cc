"""Public names of `marft_agents`, and its modules at their old import paths."""

import importlib
import subprocess
import sys

import pytest

import marft_agents
from marft_agents._moved import MOVED, RENAMED


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
    assert printed == "['marft_agents._moved']\n"


@pytest.mark.parametrize("old", sorted(set(MOVED) - {"vllm_sampler"}))
def test_a_module_is_found_at_its_old_path(old, monkeypatch):
    name = f"marft_agents.{old}"
    monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.warns(DeprecationWarning, match=f"{name} is marft_agents.{MOVED[old][0]} now"):
        module = importlib.import_module(name)
    for new in MOVED[old]:
        current = importlib.import_module(f"marft_agents.{new}")
        public = [key for key in vars(current) if not key.startswith("_")]
        assert public
        assert all(getattr(module, key) is getattr(current, key) for key in public if key not in {"log"})


def test_names_that_moved_apart_are_all_at_the_old_path(monkeypatch):
    monkeypatch.delitem(sys.modules, "marft_agents.settings", raising=False)
    with pytest.warns(DeprecationWarning, match="settings is marft_agents.learning.settings now"):
        settings = importlib.import_module("marft_agents.settings")
    assert settings.LearnerSettings is marft_agents.LearnerSettings
    assert settings.SettingsError is marft_agents.SettingsError


@pytest.mark.parametrize("old", sorted(RENAMED))
def test_a_renamed_class_is_found_at_its_old_name(old):
    current = getattr(marft_agents, RENAMED[old])
    with pytest.warns(DeprecationWarning, match=f"marft_agents.{old} is called {RENAMED[old]} now"):
        assert getattr(marft_agents, old) is current
    with pytest.warns(DeprecationWarning, match=f"{current.__module__}.{old} is called {RENAMED[old]} now"):
        assert getattr(importlib.import_module(current.__module__), old) is current


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("records", "Episode", "EpisodeStart"),
        ("live_game", "LiveGame", "RecordedGame"),
        ("rollouts.running_game", "LiveGame", "RecordedGame"),
        ("stepping", "Stepper", "BackgroundJobs"),
    ],
)
def test_a_renamed_class_is_found_in_its_old_module_with_a_warning(module, old, new, monkeypatch):
    monkeypatch.delitem(sys.modules, f"marft_agents.{module}", raising=False)
    with pytest.warns(DeprecationWarning, match=" now$"):
        found = importlib.import_module(f"marft_agents.{module}")
    with pytest.warns(DeprecationWarning, match=f"{old} is called {new} now"):
        assert getattr(found, old) is getattr(found, new)
    with pytest.raises(AttributeError, match=f"marft_agents.{module}' has no attribute 'nothing_of_the_kind'"):
        _ = found.nothing_of_the_kind
