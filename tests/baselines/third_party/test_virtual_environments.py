"""Other libraries for real, in environments made where they are missing: they learn, the first speaker is paid."""

from __future__ import annotations

import pytest

from baselines.third_party.run import Planned, play
from baselines.third_party.virtual_environments import LIBRARIES, cache_folder, prepare

RUNS = [(library, *run) for library, entry in LIBRARIES.items() for run in entry.runs]


@pytest.mark.slow
@pytest.mark.parametrize(("library", "script", "algorithm"), RUNS)
def test_the_probe_is_learnt_and_the_reward_reaches_the_first_speaker(library, script, algorithm, tmp_path):
    environment = LIBRARIES[library].environment
    python = prepare(environment, cache_folder() / environment)
    assert play(Planned(library, python, script, algorithm, "cheap_talk"), None, 0, tmp_path).fault == ""
