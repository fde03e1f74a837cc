from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "name",
    ["communication", "dependency", "drawing", "plan", "routing", "spaces", "wrappers.turn_parallel"],
)
def test_examples_in_docstrings_run(name):
    done = doctest.testmod(importlib.import_module(f"marft_envs.{name}"))
    assert done.attempted
    assert not done.failed
