"""Other libraries for real, where they are importable: they learn the probe, and the reward reaches who spoke first."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

from baselines.third_party.environments import LIBRARIES, ROOT
from baselines.third_party.outcome import read
from baselines.third_party.run import judge

MODULES = {"rllib": "ray", "sb3": "sb3_contrib"}
RUNS = [(library, *run) for library, entry in LIBRARIES.items() for run in entry.runs]


@pytest.mark.slow
@pytest.mark.parametrize(("library", "script", "algorithm"), RUNS)
def test_the_probe_is_learnt_and_the_reward_reaches_the_first_speaker(library, script, algorithm, tmp_path):
    if importlib.util.find_spec(MODULES.get(library, library)) is None:
        pytest.skip(f"{library} is not installed")
    file = tmp_path / "outcome.json"
    command = [sys.executable, "-m", f"baselines.third_party.{script}", "--algorithm", algorithm, "--json", str(file)]
    settings = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "OMP_NUM_THREADS": "1"}
    subprocess.run(command, cwd=tmp_path, env=settings, check=True, timeout=600)
    assert judge(library, read(file)) == ""
