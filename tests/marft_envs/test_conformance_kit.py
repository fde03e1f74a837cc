"""The kit passes every registered environment, and catches environments that break one rule each."""

from __future__ import annotations

import random

import pytest
from toy_games import toy_game, toy_tasks, toy_team

import marft_envs
from marft_envs import FlexMG, TextObservation
from marft_envs.dependency import full, routed
from marft_envs.testing import check_environment


@pytest.mark.parametrize("name", marft_envs.envs())
def test_every_registered_environment_conforms(name):
    report = check_environment(lambda **kwargs: marft_envs.make(name, data=toy_tasks(), **kwargs))
    assert report.passed, str(report)
    assert len(report.checks) == 14


@pytest.mark.parametrize(
    "kwargs",
    [
        {"horizon": 3, "feedback": "verdict"},
        {"horizon": 2, "communication": "last", "dependency": full(delayed="all")},
        {"horizon": 2, "dependency": routed(by="a_0"), "max_action_chars": 50},
    ],
)
def test_other_settings_conform(kwargs):
    report = check_environment(lambda **more: toy_game("a_0", "b_0", "c_0", **kwargs, **more))
    assert report.passed, str(report)


class Unfair(FlexMG):
    """Pays one agent only."""

    def _finish_round(self, played):
        super()._finish_round(played)
        self.rewards[self.possible_agents[0]] += 1.0


class Uneven(FlexMG):
    """Agents end with different flags."""

    def _finish_round(self, played):
        super()._finish_round(played)
        self.truncations[self.possible_agents[0]] = not self.terminations[self.possible_agents[0]]
        self.terminations[self.possible_agents[0]] = False
        self.truncations[self.possible_agents[0]] = True


class Wordy(FlexMG):
    """A string in the infos."""

    def _refresh(self):
        super()._refresh()
        self.infos[self.agents[0]]["author"] = "a_0"


class Nosy(FlexMG):
    """Shows everything to everybody."""

    def observe(self, agent):
        return TextObservation(super().observe(agent) + str(self.state()))


class Blind(FlexMG):
    """Shows nothing of the others."""

    def observe(self, agent):
        return TextObservation("\n".join(turn.action for turn in self._turns if turn.agent == agent))


class Worn(FlexMG):
    """Looking uses something up."""

    looks = 0

    def observe(self, agent):
        self.looks += 1
        return TextObservation(f"{super().observe(agent)} {self.looks}")


class Gambler(FlexMG):
    """Draws from the global generator."""

    def reset(self, seed=None, options=None):
        random.random()
        super().reset(seed, options)


class Fussy(FlexMG):
    """Raises on an empty action."""

    def step(self, action):
        if action == "":
            raise ValueError("say something")
        super().step(action)


class Plain(FlexMG):
    """Observations are plain strings."""

    def observe(self, agent):
        return str(super().observe(agent))


class Forgetful(FlexMG):
    """A copy starts anew."""

    def __deepcopy__(self, memo):
        clone = Forgetful(self.tasks, self.team)
        clone.reset(seed=1)
        return clone


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (Unfair, "all agents end together"),
        (Uneven, "all agents end together"),
        (Wordy, "infos are numbers with fixed keys"),
        (Nosy, "exactly what D allows is seen"),
        (Blind, "exactly what D allows is seen"),
        (Worn, "observe is pure"),
        (Gambler, "global generators untouched"),
        (Fussy, "any text is an action"),
        (Plain, "pettingzoo api_test"),
        (Forgetful, "copies go on alike"),
    ],
)
def test_each_broken_rule_is_caught(broken, check):
    report = check_environment(lambda **kwargs: broken(toy_tasks(), toy_team("a_0", "b_0"), **kwargs))
    failed = {entry.name: entry.detail for entry in report.checks if not entry.passed}
    assert failed.get(check)
    assert not report.passed
    assert f"FAIL {check}: " in str(report)
