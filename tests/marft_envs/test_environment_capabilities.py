"""Capabilities that environments promise in their metadata, whatever their class is."""

import copy
from typing import Any, ClassVar

import pytest
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from baselines.experiment.environments import scenarios
from marft_envs import FlexMG, Task
from marft_envs.environment_capabilities import dependency_game, independent_games, listing_game, recording_game
from marft_envs.rollout.game_status import ReportingGame, Waiting
from tests.helpers.third_party_game import ThirdPartyGame
from tests.helpers.toy_games import toy_game, toy_tasks


class Listed(ThirdPartyGame):
    """A game of another class that promises a list of tasks."""

    metadata: ClassVar[dict[str, Any]] = {**ThirdPartyGame.metadata, "lists_tasks": True}
    tasks = (Task("one", "?", "1", "test"), Task("two", "?", "2", "test"))


class Recorded(ThirdPartyGame):
    """A game of another class that promises records."""

    metadata: ClassVar[dict[str, Any]] = {**ThirdPartyGame.metadata, "records_episodes": True}

    def episode(self):
        return "the record"


class Renamed(FlexMG):
    """A Flex-MG with metadata of its own."""

    metadata: ClassVar[dict[str, Any]] = {"name": "mine/renamed-v0", "render_modes": []}


@pytest.mark.parametrize("ask", [recording_game, listing_game, dependency_game])
def test_a_flex_mg_promises_all_behind_any_wrapper_also_with_metadata_of_its_own(ask):
    game = toy_game()
    assert ask(OrderEnforcingWrapper(game)) is game
    assert ask(Renamed(toy_tasks(), game.team)).metadata["name"] == "marft/custom-v0"


@pytest.mark.parametrize("ask", [recording_game, listing_game, dependency_game])
def test_an_environment_that_promises_nothing_is_asked_for_nothing(ask, monkeypatch):
    assert ask(ThirdPartyGame()) is None
    monkeypatch.delattr(ThirdPartyGame, "metadata")
    assert ask(ThirdPartyGame()) is None


def test_a_list_of_tasks_is_evaluated_whole():
    assert scenarios(Listed(), None) == [{"index": 0}, {"index": 1}]
    assert scenarios(ThirdPartyGame(), 2) == [{"seed": 0}, {"seed": 1}]


def test_the_record_of_any_game_is_kept():
    game = ReportingGame(0, Recorded())
    turn = game.begin(0, None)
    while isinstance(turn, Waiting):
        turn = game.play("hello")
    assert turn.record == "the record"


def test_a_game_that_never_began_has_no_record_of_its_own():
    class Shut(Recorded):
        def reset(self, seed=None, options=None):
            raise OSError("closed for the season")

    over = ReportingGame(0, Shut()).begin(7, None)
    assert (over.record, over.seed) == (None, 7)
    assert over.failure.startswith("reset: OSError: closed for the season (tests/")


def test_a_game_that_fails_after_a_limit_cut_it_has_failed_and_no_more():
    class Cut(ThirdPartyGame):
        def step(self, action):
            if action is None:
                raise OSError("gone")
            super().step(action)
            self.truncations = dict.fromkeys(self.agents, True)

    game = ReportingGame(0, Cut())
    game.begin(0, None)
    over = game.play("1")
    assert over.failure.startswith("last step of player_1: OSError: gone (tests/")
    assert (over.terminated, over.truncated, over.turns) == (False, False, 1)


def test_copies_are_made_only_where_they_share_data():
    made = []

    def make(kind):
        made.append(kind())
        return made[-1]

    games = independent_games(lambda: make(toy_game))
    one, other = games(), games()
    assert len(made) == 1
    assert one is not other
    assert one.tasks is other.tasks
    fresh = independent_games(lambda: make(ThirdPartyGame))
    assert fresh() is made[-1]
    assert fresh() is made[-1]
    assert len(made) == 4
    assert copy.deepcopy(made[-1]) is not made[-1]
