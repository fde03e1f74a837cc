"""One thread per process: results do not depend on it, and machines are shared. One Ray cluster for all tests of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # tests/fakes.py
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def connected():
    """One cluster on this machine; its processes find the modules of the tests."""
    from marft_agents.rollouts.ray_workers import cluster
    from marft_agents.rollouts.rollout_workers import RolloutSettings

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        patch.setenv("RAY_memory_monitor_refresh_ms", "0")  # it kills workers where others fill the memory
        with cluster(RolloutSettings("local", rollout_workers=3)):  # a core more for the workers that are refused
            yield
