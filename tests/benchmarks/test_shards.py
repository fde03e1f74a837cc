"""The measured time of a training of `shards` leaves out the first update, and its budget follows from the others."""

import pytest

from benchmarks.shards import BUDGET, measure


@pytest.mark.long
def test_minutes_of_a_budget_follow_from_the_measured_updates(capsys):
    found = measure(2, 4, updates=1, threads=1, model="tiny")
    assert capsys.readouterr().out.count("update") == 4  # two lines, each with the name of a phase
    assert [len(found["seconds"][phase]["process"]) for phase in ("rollout", "update")] == [1, 1]
    spent = sum(found["seconds"][phase]["process"][0] for phase in ("rollout", "update"))
    assert found["cpu_seconds_per_1000_tokens"] == pytest.approx(1000 * spent / sum(found["tokens"]), abs=0.1)
    assert found["minutes"] > 0
    assert found["budget_tokens"] == BUDGET
