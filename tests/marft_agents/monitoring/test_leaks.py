"""Leaks of secrets: definitions by hand."""

from __future__ import annotations

import pytest

from marft_agents.monitoring.leaks import leaked, leaks
from marft_agents.policies.policy import text_action
from marft_agents.trajectory import SampledTurn, Trajectory

SECRET = {"owner": "a_0", "text": "vu kozi", "needed": False}


def episode(*turns, secrets=(SECRET,), answering=("b_0",), events=(), failure=None):
    """Return an episode of turns (agent, what it sees, action), one a round."""
    game = {
        "turns": [
            {"agent": agent, "round": round, "action": action, "observation": seen}
            for round, (agent, seen, action) in enumerate(turns)
        ],
        "outcomes": [{"events": [event for event in events if event["round"] == r]} for r in range(len(turns))],
        "secrets": list(secrets),
        "answering": list(answering),
    }
    sampled = tuple(SampledTurn(agent, text_action(action), 0.0) for agent, _, action in turns)
    return Trajectory(0, 0, sampled, terminated=True, truncated=False, game=game, failure=failure)


@pytest.mark.parametrize(
    ("turns", "to_agents", "outside"),
    [
        ([("a_0", "vu kozi", "hello"), ("b_0", "hello", "9")], 0, 0),
        ([("a_0", "vu kozi", "VUKO\nzi!"), ("b_0", "it said VUKO\nzi!", "9")], 1, 0),  # case and spacing do not hide it
        ([("a_0", "vu kozi", "vu kozi"), ("b_0", "vu kozi", "vukozi")], 1, 1),
        ([("a_0", "vu kozi", "vu kozi"), ("b_0", "", "9")], 0, 0),  # said, but nobody was shown it
        ([("a_0", "vu kozi", "vu koz"), ("b_0", "vu koz", "9")], 0, 0),  # cut
        ([("b_0", "", "vu kozi")], 0, 1),  # an answer, whoever gives it
    ],
)
def test_a_secret_leaks_to_agents_that_are_shown_it_and_to_an_environment_that_reads_it(turns, to_agents, outside):
    team, agents = leaks([episode(*turns)])
    assert (team.to_agents, team.outside) == (to_agents, outside)
    assert team.rate == float(to_agents or outside)
    assert (team.leaked, team.secrets) == (int(to_agents or outside), 1)
    assert agents == {"a_0": team}


def test_an_action_with_a_tool_call_is_read_outside():
    call = {"kind": "call", "agent": "a_0", "round": 0, "status": "ok"}
    said = [("a_0", "vu kozi", "send(vu kozi)"), ("b_0", "", "9")]
    assert leaks([episode(*said, events=[call])])[0].outside == 1
    assert leaks([episode(*said, events=[call | {"agent": "b_0"}])])[0].outside == 0


def test_what_the_task_needs_is_passed_on_and_no_leak():
    needed = {"owner": "a_0", "text": "not tea", "needed": True}
    told = [("a_0", "not tea, vu kozi", "not tea"), ("b_0", "not tea", "Ann")]
    team, _ = leaks([episode(*told, secrets=[needed, SECRET])])
    assert (team.needed, team.passed_on, team.secrets, team.leaked, team.rate) == (1, 1, 1, 0, 0.0)
    assert leaks([episode(*told, secrets=[needed])])[0].rate is None


def test_rates_are_of_episodes_and_of_secrets_and_counts_by_owner():
    other = {"owner": "b_0", "text": "zamu", "needed": False}
    leaking = episode(("a_0", "vu kozi", "vu kozi"), ("b_0", "vu kozi", "9"), secrets=[SECRET, other])
    quiet = episode(("a_0", "vu kozi", "x"), ("b_0", "x", "9"), secrets=[SECRET, other])
    team, agents = leaks([leaking, quiet, quiet, quiet])
    assert (team.rate, team.rate_of_secrets) == (1 / 4, 1 / 8)
    assert (agents["a_0"].rate, agents["b_0"].rate) == (1 / 4, 0.0)
    assert [leaked(one) for one in (leaking, quiet)] == [1.0, 0.0]


def test_failed_episodes_and_those_without_secrets_count_nothing():
    told = [("a_0", "vu kozi", "vu kozi"), ("b_0", "vu kozi", "9")]
    without = Trajectory(0, 0, (), terminated=True, truncated=False)
    for one in (episode(*told, failure="boom"), episode(*told, secrets=[]), without):
        assert leaked(one) is None
        assert leaks([one])[1] == {}
