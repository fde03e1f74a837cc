"""A window of rounds, and an agent whose action replaces a transcript that has become too long."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest

from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.trainer import Trainer
from marft_envs import Episode, FlexMG, Outcome, Task, TaskList, replay
from marft_envs.dependency import DependencyError, from_dict, schedule
from marft_envs.dependency.drawing import mermaid
from marft_envs.testing import check_environment
from tests.helpers.fakes import word_team
from tests.helpers.naive import adapters, moved
from tests.helpers.toy_games import play, play_out, toy_game, toy_team

AGENTS = ("compactor_0", "solver_0", "actor_0")
BUDGET = 120
AT_WORK = {"kind": "full", "active": list(AGENTS[1:]), "delayed": "all"}
HORIZON = 8


def by_budget(characters):
    """Return D in which the compactor acts where the transcript is longer."""
    rules = [{"when": {"transcript": f"> {characters}"}, "use": {"kind": "full", "delayed": "all"}}]
    return {"kind": "by_state", "rules": rules, "default": AT_WORK}


def compacted(**changes):
    """Return a game whose compactor acts where the transcript is longer than the budget."""
    settings = {"dependency": by_budget(BUDGET), "compaction": "compactor_0", "horizon": HORIZON} | changes
    return toy_game(*AGENTS, **settings)


def marker(agent, round):
    return f"<{agent}.{round}>"


def told(observation):
    return set(re.findall(r"<(\w+)\.(\d+)>", observation))


def test_the_summary_takes_the_place_of_the_rounds_before_it():
    game = compacted()
    game.reset(seed=0, options={"task_id": "add-5"})
    acting = {round: [] for round in range(HORIZON)}
    lengths = {}

    def say(agent):
        round = game.infos[agent]["round"]
        if not acting[round]:
            lengths[round] = game.infos[agent]["transcript"]
        acting[round].append(agent)
        return "." * (4 if agent == "compactor_0" else 10) + marker(agent, round)

    seen = {}
    for agent in play(game, say):
        seen[agent, game.infos[agent]["round"]] = str(game.observe(agent))
    with_compactor = [round for round, agents in acting.items() if agents[0] == "compactor_0"]
    assert with_compactor == [round for round in acting if lengths[round] > BUDGET]
    assert len(with_compactor) >= 2
    first, second = with_compactor[:2]
    assert first > 1  # below the budget it does not act
    assert told(seen["compactor_0", first]) == {(a, str(r)) for r in range(first) for a in AGENTS[1:]}
    # the solver sees the problem, the summary and what came after
    assert told(seen["solver_0", first]) == {("compactor_0", str(first))}
    assert all("What is 5 + 1?" in text for text in seen.values())
    since = {(agent, str(round)) for round in range(first, second) for agent in acting[round]}
    assert told(seen["compactor_0", second]) == since
    assert told(seen["actor_0", second]) == {("compactor_0", str(second)), ("solver_0", str(second))}


def test_the_transcript_counts_all_that_was_said_since_the_last_summary():
    game = compacted()
    game.reset(seed=0, options={"task_id": "add-5"})
    problem = len("What is 5 + 1?")
    assert game.infos["solver_0"]["transcript"] == problem
    game.step("12345")
    assert game.infos["solver_0"]["transcript"] == problem + 5
    game.step("x" * BUDGET)
    opening = len("Round 2 of 8.")
    assert game.agent_selection == "compactor_0"
    assert game.infos["solver_0"]["transcript"] == problem + 5 + BUDGET + opening
    assert game.infos["solver_0"]["visible"] == 1
    assert "12345" in game.observe("actor_0")
    game.step("short")
    assert game.infos["solver_0"]["transcript"] == problem + opening + 5
    assert {agent: game.infos[agent]["visible"] for agent in AGENTS} == {**dict.fromkeys(AGENTS, 1), "compactor_0": 0}
    assert "12345" not in game.observe("actor_0")
    assert game.observe("actor_0").fixed_messages == 2
    assert "short" in game.state()
    assert "12345" in game.state()  # the record keeps everything


@pytest.mark.parametrize("seed", range(6))
def test_with_random_agents_it_never_acts_below_the_budget_and_nothing_replaced_is_seen(seed):
    game, rng = compacted(), np.random.default_rng(seed)
    game.reset(seed=seed)
    at_start, last = {}, {}

    def say(agent):
        info = game.infos[agent]
        round, observation = info["round"], game.observe(agent)
        at_start.setdefault(round, info["transcript"])
        assert (agent == "compactor_0") <= (at_start[round] > BUDGET)
        assert all(int(number) >= last.get("round", 0) for _, number in told(observation))
        others = [m for m in observation.messages if m["role"] == "user" and m["name"] in AGENTS]
        assert len(others) == info["visible"]
        if agent == "compactor_0":
            last["round"] = round
        return "." * int(rng.integers(60)) + marker(agent, round)

    play_out(game, say)
    record = game.episode()
    acted = {turn.round for turn in record.turns if turn.agent == "compactor_0"}
    assert acted == {round for round, length in at_start.items() if length > BUDGET}
    for turn in record.turns:
        assert {(agent, str(round)) for round, agent in turn.visible} == told(turn.observation) - {
            (turn.agent, number) for _, number in told(turn.observation)
        }
    assert replay(compacted(), Episode.from_json(record.to_json())) == []


def test_an_agent_that_does_not_see_the_summary_keeps_the_rounds():
    rows = [[0, 1, 0], [0, 0, 1], [0, 0, 0]]  # the actor does not see the compactor
    game = compacted(dependency={"kind": "matrix", "rows": rows, "delayed": [[0, 1, 0], [1, 0, 1], [1, 1, 0]]})
    game.reset(seed=0)
    play_out(game, lambda agent: marker(agent, game.infos[agent]["round"]))
    last = str(HORIZON - 1)
    assert told(game.observe("solver_0")) == {("compactor_0", last), ("solver_0", last)}
    assert len(told(game.observe("actor_0"))) == 2 * HORIZON


def test_a_window_shows_the_latest_rounds_and_the_problem():
    game = toy_game("a_0", "b_0", dependency={"kind": "chain", "delayed": "all"}, horizon=4, context_rounds=2)
    game.reset(seed=0, options={"task_id": "add-5"})
    for agent in play(game, lambda agent: marker(agent, game.infos[agent]["round"])):
        round = game.infos[agent]["round"]
        seen = game.observe(agent)
        assert {int(number) for _, number in told(seen)} <= {round - 1, round}
        assert "What is 5 + 1?" in seen
        others = [message for message in seen.messages if message.get("name") not in (None, agent, "environment")]
        assert len(others) == game.infos[agent]["visible"]
    assert game.settings["context_rounds"] == 2
    assert replay(toy_game("a_0", "b_0", **KEYWORDS), game.episode()) == []


@pytest.mark.parametrize(("own", "kept"), [("window", []), ("last", [1]), ("all", [0, 1])])
def test_a_window_may_keep_own_actions_without_the_texts_that_they_answer(own, kept):
    make = partial(toy_game, "a_0", "b_0", **KEYWORDS | {"context_rounds": 1, "own_actions": own})
    game = make()
    game.reset(seed=0)
    for agent in play(game, lambda agent: marker(agent, game.infos[agent]["round"])):
        if game.infos[agent]["round"] == 2:
            messages = game.observe(agent).messages
            mine = [message["content"] for message in messages if message["role"] == "assistant"]
            assert mine == [marker(agent, round) for round in kept]
            assert sum("Round" in message["content"] for message in messages) == 1
    assert game.settings.get("own_actions", "window") == own
    assert replay(make(), game.episode()) == []
    report = check_environment(make, cycles=5, thorough=False)
    assert [str(check) for check in report.checks if check.passed is False] == []


KEYWORDS = {"dependency": {"kind": "chain", "delayed": "all"}, "horizon": 4, "context_rounds": 2}


def test_older_records_have_no_such_settings():
    assert not {"context_rounds", "compaction", "own_actions"} & toy_game().settings.keys()


def test_they_conform():
    report = check_environment(compacted, cycles=5, thorough=False)
    assert [str(check) for check in report.checks if check.passed is False] == []


class Counted(TaskList):
    """The reward of a round is the number of different characters of the answer."""

    def judge(self, task, answer, *, round, last_round):
        return Outcome(float(len(set(answer or ""))), False, False, False)


def test_a_compactor_learns_like_any_other_agent():
    team = word_team(AGENTS, sampling=SamplingParams(max_new_tokens=3))
    tasks = Counted("counted", [Task("one", "topic a", "", "train")])
    dependency = by_budget(30)
    make = partial(FlexMG, tasks, toy_team(*AGENTS), dependency=dependency, compaction="compactor_0", horizon=4)
    learner = Learner(team, LearnerSettings(policy_lr=1e-2), seed=0)
    trainer = Trainer(partial(make, reward="outcome"), team, learner, TrainingSchedule(groups=4, group_size=1))
    before = adapters(team)
    assert trainer.step()["compactor_0/tokens_mean"] > 0
    assert moved(before, adapters(team)) == set(AGENTS)


# ------------------------------------------------------------------ schedules by phase, and bad input


def test_a_schedule_may_go_by_phase():
    phases = from_dict(
        {"kind": "schedule", "by": "phase", "steps": ["chain", {"kind": "chain", "active": ["actor_0"]}]}
    )
    assert from_dict(phases.to_dict()) == phases
    roster = toy_team(*AGENTS).roster
    assert len(phases.given({"phase": 0}).plan(roster, 5).order) == 3
    assert phases.given({"phase": 1}).plan(roster).order == ("actor_0",)
    assert phases.given({"phase": 7}).plan(roster).order == ("actor_0",)
    assert 'subgraph case_1["phase 1"]' in mermaid(phases, roster)
    with pytest.raises(DependencyError, match="by 'round' or by 'phase', not by 'time'"):
        schedule(["chain"], by="time")
    with pytest.raises(DependencyError, match="no agent that answers ever acts"):
        toy_game(*AGENTS, dependency=schedule([{"kind": "chain", "active": ["solver_0"]}], by="phase"))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"compaction": "writer_0"}, "compaction: found 'writer_0', wanted one of 'compactor_0'"),
        ({"context_rounds": 0}, "context_rounds: found 0, wanted at least 1"),
        ({"own_actions": "first"}, "own_actions: found 'first', wanted one of 'window', 'last', 'all'"),
        ({"context_rounds": "two"}, "context_rounds: found 'two', wanted a whole number"),
    ],
)
def test_bad_settings_are_refused(keywords, message):
    with pytest.raises(ValueError, match=message):
        compacted(**keywords)
