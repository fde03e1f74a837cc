"""Agents whose ids are also prefixes of metrics: nothing is written over, and every reader finds what it looks for."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from baselines.cli.progress import TrainingTable
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.metric_names import TAKEN, agent_of, metric_prefix
from marft_agents.runs.evaluation import evaluate
from marft_agents.runs.run_folder import RunFolder
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.trainer import Trainer
from marft_agents.runs.validation import Validator
from tests.helpers.fakes import CopyDigit, word_team

IDS = st.lists(st.sampled_from(["agent_", "agent", "_", "team", "critic", "solver_0"]), max_size=4).map("".join)


@given(first=IDS, second=IDS)
def test_prefixes_are_free_and_tell_agents_apart(first, second):
    assert metric_prefix(first) not in TAKEN
    assert agent_of(metric_prefix(first)) == first
    assert (metric_prefix(first) == metric_prefix(second)) == (first == second)


def game(first, second):
    """Return a game of two agents with such ids."""

    class Named(CopyDigit):
        speakers = (first, second)

        def draw(self, rng):
            self.answer = "a"

        def observe(self, agent):
            return "say a"

    return Named


def trained(folder, first, second):
    """Train for an update; return its metrics, those of the agents under "one" and "two"."""
    team = word_team([first, second])
    learner = Learner(team, LearnerSettings(), seed=0)
    records, make_env = RunFolder(folder, {}), game(first, second)
    schedule = TrainingSchedule(updates=1, groups=8, group_size=1)
    validator = Validator(make_env, team, [{}], every=1)
    Trainer(make_env, team, learner, schedule, folder=records, validator=validator).run()
    records.close()
    [line] = (folder / "metrics.jsonl").read_text().splitlines()
    names = {metric_prefix(first): "one", metric_prefix(second): "two"}
    metrics = {}
    for name, value in json.loads(line).items():
        prefix, _, measure = name.rpartition("/")
        metrics[f"{names.get(prefix, prefix)}/{measure}"] = value
    return metrics


@pytest.mark.parametrize("taken", TAKEN)
def test_an_agent_may_have_the_name_of_a_metric(tmp_path, taken):
    usual = trained(tmp_path / "usual", "speaker_0", "actor_0")
    found = trained(tmp_path / "taken", taken, "actor_0")
    untimed = [{k: v for k, v in m.items() if not k.startswith("seconds/")} for m in (found, usual)]
    assert untimed[0] == untimed[1]


def test_the_screen_and_the_evaluation_call_it_by_its_id():
    make_env, team = game("team", "actor_0"), word_team(["team", "actor_0"])
    assert list(evaluate(make_env, team, [{}]).prompt_tokens) == ["team", "actor_0"]
    table = TrainingTable(1, ["team"], Console(record=True, width=200, file=io.StringIO()))
    known = {"team/success": 0.5, "team/return": 1.0, "team/entropy": 9.0, "agent_team/entropy": 0.25}
    table.add(0, known | {"seconds/rollout": 1.0, "seconds/update": 1.0})
    assert "team entropy 0.250" in table.console.export_text()
