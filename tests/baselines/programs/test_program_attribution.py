"""Agent programs are attributed by playing them anew, and the bench refuses them with the reason."""

from __future__ import annotations

import json
import sys

import pytest

from baselines.attribution.coalitions import CoalitionGames, silent
from baselines.bench.plan_errors import PlanError
from baselines.bench.plan_file import plan_of
from baselines.experiment.environments import factory
from baselines.programs import ENVIRONMENT
from marft_agents.policies.scripted import ScriptedPolicy
from tests.helpers import talking_program

AGENTS = ["planner", "coder"]


def test_a_coalition_plays_the_program_anew(tmp_path):
    file = tmp_path / "data.jsonl"
    file.write_text(json.dumps({"steps": [["planner", "plan it"], ["coder", "do: ..."]], "reward": 1}))
    keywords = {"program": f"{sys.executable} -I -S {talking_program.__file__}", "agents": AGENTS, "data": str(file)}
    env, said = factory(ENVIRONMENT, keywords)(), []

    def say(agent, observation):
        said.append(agent)  # another text each time: a replay would differ from its record
        return f"{agent} says {len(said)}"

    games = CoalitionGames(silent(lambda: env, ScriptedPolicy(say), AGENTS), tuple(AGENTS), [{"index": 0}])
    whole = games.play(frozenset(AGENTS))
    without = games.play(frozenset({"planner"}), whole)
    env.unwrapped.programs.close()
    assert said == ["planner", "coder", "planner"]
    assert (whole.value.tolist(), without.value.tolist(), without.failures) == ([1.0], [1.0], ())


def test_the_bench_says_why_it_has_no_arms_for_a_program():
    with pytest.raises(PlanError, match="asks one team"):
        plan_of({"name": "p", "tasks": [{"name": "x", "env": ENVIRONMENT}]})
