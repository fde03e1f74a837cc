"""A game of another author trains in our learner as it is: one update moves every adapter."""

from __future__ import annotations

from functools import partial

from tests.helpers.third_party_game import ThirdPartyGame
from tests.marft_envs.bridges.one_update import one_update


def test_a_third_party_game_trains_as_it_is():
    agents = ["player_0", "player_1"]
    metrics, moved = one_update(partial(ThirdPartyGame, turns=1), agents)
    assert metrics["team/failed"] == 0
    assert metrics["team/turns"] == 2
    assert moved == set(agents)
