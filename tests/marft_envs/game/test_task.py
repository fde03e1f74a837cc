"""Sessions: a world with state between rounds, private results, copies and replay."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, field

import pytest

import marft_envs
from marft_envs import Outcome, Task, TaskList, TaskSet, Team
from marft_envs.game import FlexMG
from marft_envs.game.episode import Episode
from marft_envs.records.replay import replay
from marft_envs.teams.profile import Profile

TEAM = Team("duo", (Profile("left_0", "You add."), Profile("right_0", "You add.", answers=True)))


@dataclass
class Counter:
    """Adds what agents say; tells each its own sum; solved when all said is 10."""

    secret: int
    sums: dict[str, int] = field(default_factory=dict)

    @property
    def opening(self):
        return {"left_0": f"Your secret is {self.secret}."}

    def advance(self, turns, *, round, last_round):
        for turn in turns:
            self.sums[turn.agent] = self.sums.get(turn.agent, 0) + int(turn.action)
        done = sum(self.sums.values()) == 10
        private = {agent: f"Your sum is {value}." for agent, value in self.sums.items()}
        events = tuple({"agent": turn.agent, "added": int(turn.action)} for turn in turns)
        return Outcome(float(done), done, done, False, private=private, events=events)


class Counters:
    name = "counters"

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return Task("ten", "Make ten.", "10", "train")

    def index(self, task_id):
        return 0

    def begin(self, task, roster, generator):
        return Counter(int(generator.integers(100)))


def new_game(seed=0):
    game = FlexMG(Counters(), TEAM, horizon=3, dependency="independent")
    game.reset(seed=seed)
    return game


def play(game, *actions):
    for action in actions:
        game.step(str(action))
    return game


def test_private_texts_are_seen_by_their_agent_alone():
    game = new_game()
    assert "Your secret is" in game.observe("left_0")
    assert "Your secret is" not in game.observe("right_0")
    play(game, 1, 2)
    assert "Your sum is 1." in game.observe("left_0")
    assert "Your sum is" in game.observe("right_0")
    assert "Your sum is 1." not in game.observe("right_0")
    assert "[to right_0] Your sum is 2." in game.state()


def test_the_state_lasts_over_rounds_and_ends_the_game():
    game = play(new_game(), 1, 2, 3, 4)
    assert all(game.terminations.values())
    assert game.episode().success


def test_a_copy_in_mid_game_goes_on_alone():
    game = play(new_game(), 1, 2)
    for clone in (copy.deepcopy(game), pickle.loads(pickle.dumps(game))):
        play(clone, 5, 5)
        assert "Your sum is 6." in clone.observe("left_0")
    assert "Your sum is 1." in play(game, 0, 0).observe("left_0")


def test_a_record_holds_the_events_and_replays():
    record = Episode.from_json(play(new_game(7), 1, 2, 3, 4).episode().to_json())
    assert record.outcomes[0].events == ({"agent": "left_0", "added": 1}, {"agent": "right_0", "added": 2})
    assert replay(new_game(), record) == []


def test_the_secret_comes_from_the_seed():
    assert new_game(3).observe("left_0") == new_game(3).observe("left_0") != new_game(4).observe("left_0")


class Judges:
    """No base class of ours, and no `begin`: it only judges answers."""

    name = "judges"
    slow_step = True
    settings = {"strict": True}  # noqa: RUF012

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return Task("five", "What is 2 + 3?", "5", "train")

    def index(self, task_id):
        return 0

    def judge(self, task, answer, *, round, last_round):
        return Outcome(float(answer == task.answer), True, answer == task.answer, answer is None)


class InheritsBegin(TaskList):
    """The same with the base class."""

    judge = Judges.judge

    def __init__(self):
        super().__init__("judges", [Judges()[0]])


@pytest.mark.parametrize("kind", [Judges, InheritsBegin])
def test_a_set_that_only_judges_plays_by_the_default_session(kind):
    game = marft_envs.make("marft/math_duo-v0", data=kind(), horizon=2).unwrapped
    game.reset(seed=0)
    for clone in (copy.deepcopy(game), pickle.loads(pickle.dumps(game)), game):
        play(clone, "it is 5", 5)
        assert clone.episode().success
        assert all(clone.terminations.values())


def test_every_set_begins_sessions():
    assert isinstance(InheritsBegin(), TaskSet)
    assert isinstance(Counters(), TaskSet)
    assert not isinstance(Judges(), TaskSet)
    assert marft_envs.WorldSet is TaskSet


def test_a_set_says_whether_it_is_slow_and_what_its_settings_are():
    game = FlexMG(Judges(), TEAM)
    assert game.metadata["slow_step"] is True
    assert game.settings["strict"] is True
    assert new_game().metadata["slow_step"] is False
    assert "strict" not in new_game().settings
