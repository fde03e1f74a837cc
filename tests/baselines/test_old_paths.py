"""Modules of `baselines` at their old import paths."""

import importlib
import sys

import pytest

from baselines._moved import MOVED


@pytest.mark.parametrize("old", sorted(MOVED))
def test_a_module_is_found_at_its_old_path(old, monkeypatch):
    monkeypatch.delitem(sys.modules, f"baselines.{old}", raising=False)
    with pytest.warns(DeprecationWarning, match=f"baselines.{old} is baselines.{MOVED[old][0]} now"):
        module = importlib.import_module(f"baselines.{old}")
    current = importlib.import_module(f"baselines.{MOVED[old][0]}")
    public = [key for key in vars(current) if not key.startswith("_")]
    assert public
    assert all(getattr(module, key) is getattr(current, key) for key in public)
