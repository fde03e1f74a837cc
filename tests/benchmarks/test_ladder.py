"""The measurement of the ladders plays the problems that have no score yet, and keeps the others."""

from benchmarks.ladder import FAMILIES, play, sampling_of
from marft_agents.generation.sampling import SamplingParams


def test_only_problems_without_a_score_are_played():
    known = {str(level): "1" for level in range(1, 7)}
    found = play("tools", "solo", SamplingParams(max_new_tokens=2), {**known, "2": "1-"}, 2, model="tiny")
    assert found == {**dict.fromkeys(known, "10"), "2": "1-"}


def test_nothing_is_loaded_where_all_is_played():
    known = {str(level): "01" for level in range(1, 7)}
    assert play("math", "duo", SamplingParams(), known, 2, model="nowhere/at-all") == known


def test_ladders_are_sampled_as_in_training():
    laws = {family: (sampling_of(family).temperature, sampling_of(family).max_new_tokens) for family in FAMILIES}
    assert laws == {"math": (0.8, 24), "cmath": (0.8, 24), "codeforces": (0.6, 48), "tools": (0.8, 20)}
    assert sampling_of("math", 0.0).greedy
