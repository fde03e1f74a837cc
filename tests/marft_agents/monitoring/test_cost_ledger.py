"""The ledger against counts by hand: chains, layers, routed turns, branches, failures, tools; sums and bounds."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import marft_envs
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.metric_names import LEDGER, TEAM_LEDGER, TOKENS_TOTAL
from marft_agents.monitoring.cost_ledger import AgentLedger, Ledger, ledger_of
from marft_agents.policies.policy import TimedPolicy
from marft_agents.policies.scripted import MixedPolicy, RandomPolicy, ScriptedPolicy
from marft_agents.rollouts.prompt_groups import GroupSettings, gather, play_groups
from marft_agents.rollouts.rollout import collect, training_episodes
from marft_agents.runs.evaluation import evaluate
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.trainer import Trainer
from marft_agents.runs.validation import Validator
from marft_agents.trajectory import Action, SampledTurn, Trajectory
from tests.helpers.chooser import Chooser, spell
from tests.helpers.fakes import Broken, CopyDigit, Market, RouteToExpert, word_team

DOCS = Path(__file__).parents[3] / "docs"


def turn(agent, prompt, output, *, number=0, layer=None):
    """Return a turn with such prompt and output tokens, one per character."""
    ids = [np.frombuffer(text.encode(), np.uint8).astype(np.int32) for text in (prompt, output)]
    return SampledTurn(agent, Action(output, *ids, np.zeros(len(output), np.float32), True), 0.0, number, layer)


def episode(*turns, **fields):
    return Trajectory(0, 0, turns, terminated=True, truncated=False, **fields)


def numbers(ledger):
    """Return (turns, prompt, output, ideal-cache tokens) by agent."""
    return {agent: dataclasses.astuple(counts)[:4] for agent, counts in ledger.agents.items()}


# ------------------------------------------------------------------ by hand


def test_a_chain_without_a_shared_cache():
    """`a` reads "xyz" and then its own words again; `b` shares nothing with `a`, whose weights it does not play."""
    chain = episode(
        turn("a", "xyz", "12"),  # computes 3 + 2
        turn("b", "xyz12", "3", number=0),  # 5 + 1: another adapter
        turn("a", "xyz12-3", "456", number=1),  # after "xyz12": 2 + 3
        turn("b", "xyq", "7", number=1),  # after "xy": 1 + 1
    )
    found = ledger_of([chain])
    assert numbers(found) == {"a": (2, 10, 5, 10), "b": (2, 8, 2, 8)}
    assert found.team == AgentLedger(4, 18, 7, 18)
    assert found.critical_path_tokens == 7  # no layers: one turn after the other
    assert (found.episodes, found.failed, found.judge_calls) == (1, 0, None)


def test_agents_of_one_adapter_share_a_cache():
    chain = episode(turn("a", "xyz", "12"), turn("b", "xyz12", "3"), turn("c", "xyz12", "3"))
    shared = ledger_of([chain], {"a": "one", "b": "one", "c": "c"})
    assert numbers(shared) == {"a": (1, 3, 2, 5), "b": (1, 5, 1, 1), "c": (1, 5, 1, 6)}
    assert ledger_of([chain], {"b": "a"}).agents["b"].ideal_cache_tokens == 6  # a key is not the name of an agent


def test_a_cache_is_empty_when_an_episode_begins():
    one = episode(turn("a", "xyz", "12"))
    assert ledger_of([one, one]) == ledger_of([one]) + ledger_of([one])
    assert ledger_of([one, one]).agents["a"].ideal_cache_tokens == 10


def test_every_output_counts_even_where_it_repeats_another():
    twice = episode(turn("a", "xyz", "12"), turn("a", "xyz", "12", number=1))
    assert numbers(ledger_of([twice])) == {"a": (2, 6, 4, 7)}


def test_independent_agents_of_a_layer_count_the_longest():
    layers = episode(
        turn("a", "p", "1234", layer=0),
        turn("b", "p", "12", layer=0),
        turn("c", "p", "123456", layer=1),
        turn("a", "p", "1", number=1, layer=0),
        turn("b", "p", "123", number=1, layer=0),
    )
    assert ledger_of([layers]).critical_path_tokens == 4 + 6 + 3


def test_a_branch_counts_from_its_branched_turn():
    stem = (turn("a", "xyz", "12"), turn("b", "q", "3", number=0))
    sibling = episode(*stem, turn("a", "xyz12-", "45", number=1), branch=2)
    assert numbers(ledger_of([sibling])) == {"a": (1, 6, 2, 3)}  # "xyz12" was computed by the stem
    assert ledger_of([sibling]).critical_path_tokens == 2
    early = episode(*stem, branch=3, failure="replay: the game was over before turn 2")
    assert ledger_of([early]) == Ledger(episodes=1, failed=1)


def test_a_turn_that_the_environment_failed_on_was_generated():
    broken = episode(turn("a", "xyz", "12"), failure="step of b: boom", unplayed=(turn("b", "q", "345"),))
    found = ledger_of([broken])
    assert numbers(found) == {"a": (1, 3, 2, 5), "b": (1, 1, 3, 4)}
    assert (found.failed, found.critical_path_tokens) == (1, 5)


def test_actions_without_tokens_are_turns_of_unknown_cost():
    found = ledger_of([episode(turn("a", "xyz", "12"), turn("scripted", "", ""))])
    assert found.agents["scripted"] == AgentLedger(turns=1)
    assert found.team == AgentLedger(2, 3, 2, 5)
    assert "scripted/output_tokens_sum" not in found.metrics()
    assert ledger_of([episode(turn("s", "", ""))]).critical_path_tokens is None


CALL = {"kind": "call", "agent": "a", "status": "ok"}
GAME = {
    "outcomes": [
        {"events": [CALL, CALL | {"status": "refused"}, {"kind": "hand_off", "agent": "a"}]},
        None,
        {"events": [CALL | {"agent": "b", "status": "unreadable"}]},
    ]
}


def test_tool_calls_and_judged_rounds_come_from_the_record():
    turns = (turn("a", "p", "1"), turn("b", "p", "1"), turn("c", "p", "1"))
    found = ledger_of([episode(*turns, game=GAME)])
    calls = {agent: (counts.tool_calls, counts.tool_failures) for agent, counts in found.agents.items()}
    assert calls == {"a": (2, 1), "b": (1, 1), "c": (0, 0)}
    assert found.judge_calls == 2
    unknown = ledger_of([episode(*turns)])
    assert (unknown.team.tool_calls, unknown.judge_calls) == (None, None)
    assert (found + unknown).team.tool_calls == 3  # a failed episode, which has no record, hides nothing


def test_names_of_metrics_and_the_json_form():
    found = ledger_of([episode(turn("team", "xyz", "12"), game=GAME)], seconds_generation=1.5, seconds_update=0.5)
    metrics = found.metrics()
    assert metrics["agent_team/output_tokens_sum"] == metrics["team/output_tokens_sum"] == 2
    assert (metrics["seconds/generation"], metrics["seconds/update"]) == (1.5, 0.5)
    assert "seconds/environment" not in metrics
    assert {n.split("/")[1] for n in metrics if n.startswith("team/")} == set(TEAM_LEDGER)
    assert {n.split("/")[1] for n in metrics if n.startswith("agent_team/")} == set(LEDGER)
    record = json.loads(json.dumps(found.to_dict()))
    assert Ledger.from_dict(record) == found
    assert record["team"] == record["agents"]["team"] | {"tool_calls": 0, "tool_failures": 0}
    with pytest.raises(ValueError, match="no record of a ledger: KeyError: 'agents'"):
        Ledger.from_dict({})
    with pytest.raises(ValueError, match="no record of a ledger: TypeError"):
        Ledger.from_dict(record | {"price": 1})


@pytest.mark.parametrize("measure", [*TEAM_LEDGER, TOKENS_TOTAL, "seconds/generation", "seconds/environment"])
def test_every_measure_is_defined_in_the_docs(measure):
    assert f"`{measure}`" in (DOCS / "learner.md").read_text(encoding="utf-8")


# ------------------------------------------------------------------ properties

IDS = arrays.arrays(np.int32, st.integers(1, 6), elements=st.integers(0, 2))


@st.composite
def episodes(draw):
    """Draw an episode of up to three agents, with or without layers; perhaps a branch, perhaps failed."""
    layered, count = draw(st.booleans()), draw(st.integers(0, 6))
    turns = [
        SampledTurn(
            draw(st.sampled_from("abc")),
            Action("", draw(IDS), draw(IDS), np.zeros(0, np.float32), True),
            0.0,
            draw(st.integers(0, 2)),
            draw(st.integers(0, 1)) if layered else None,
        )
        for _ in range(count)
    ]
    lost = draw(st.integers(0, count))
    branch = draw(st.none() | st.integers(0, count))
    unplayed = tuple(turns[count - lost :])
    return episode(*turns[: count - lost], unplayed=unplayed, branch=branch, failure="boom" if lost else None)


def slow_ideal_cache(trajectory, caches):
    """Count ideal-cache tokens with sets of all prefixes."""
    known = {key: set() for key in caches.values()}
    total = 0
    turns = [*trajectory.turns, *trajectory.unplayed]
    for number, played in enumerate(turns):
        prompt, output = played.action.prompt_ids.tolist(), played.action.token_ids.tolist()
        cache, tokens = known[caches[played.agent]], (*prompt, *output)
        new = [n for n in range(1, len(prompt) + 1) if tokens[:n] not in cache]
        total += (len(new) + len(output)) * (number >= (trajectory.branch or 0))
        cache |= {tokens[:n] for n in range(1, len(tokens) + 1)}
    return total


@given(played=st.lists(episodes(), max_size=3), shared=st.booleans())
def test_sums_and_bounds(played, shared):
    caches = dict.fromkeys("abc", 0) if shared else {agent: agent for agent in "abc"}
    found = ledger_of(played, caches)
    team = found.team
    generated = [played.action for t in played for played in [*t.turns, *t.unplayed][t.branch or 0 :]]
    assert team.turns == len(generated) == sum(counts.turns for counts in found.agents.values())
    assert (team.prompt_tokens or 0) == sum(len(action.prompt_ids) for action in generated)
    assert (team.output_tokens or 0) == sum(len(action.token_ids) for action in generated)
    assert (team.ideal_cache_tokens or 0) == sum(slow_ideal_cache(t, caches) for t in played)
    assert (found.critical_path_tokens or 0) <= (team.output_tokens or 0)
    if not any(turn.layer is not None for t in played for turn in [*t.turns, *t.unplayed]):
        assert found.critical_path_tokens == team.output_tokens
    if generated:
        assert team.output_tokens <= team.ideal_cache_tokens <= team.prompt_tokens + team.output_tokens
    assert (found.episodes, found.failed) == (len(played), sum(t.failure is not None for t in played))
    parts = [ledger_of([t], caches) for t in played]
    assert sum(parts, Ledger()) == found
    assert Ledger.from_dict(found.to_dict()) == found


# ------------------------------------------------------------------ played episodes


class Counting(Chooser):
    """A chooser that counts the tokens it generates."""

    tokens = 0

    def act(self, requests):
        actions = super().act(requests)
        self.tokens += sum(len(action.token_ids) for action in actions)
        return actions


@pytest.mark.parametrize("where", ["step", "observe", "reset", "last step"])
def test_all_that_was_generated_is_counted_also_where_the_environment_fails(where):
    policy = Counting()
    played = collect(lambda: Broken(where), policy, training_episodes(0, 0, 8, 1), seed=0)
    found = ledger_of(played)
    assert found.failed in range(1, 8)
    assert (found.team.output_tokens or 0) == policy.tokens
    assert found.team.turns == len(policy.asked)


@pytest.mark.parametrize("grouping", [{"extra_rounds": 2}, {"branches": 3}, {"branches": 2, "extra_rounds": 1}])
def test_further_groups_and_branches_are_counted(grouping):
    policy = Counting()

    def play(plan):
        return collect(RouteToExpert, policy, plan, seed=0, encode=spell)

    settings = GroupSettings(0, 4, 2, **grouping)
    experience = gather(lambda numbers: play_groups(play, numbers, settings), 0, settings)
    found = ledger_of(experience.played)
    metrics = experience.metrics()
    assert found.team.output_tokens == policy.tokens == metrics["team/tokens"] + metrics["team/extra_tokens"]
    assert found.team.turns == len(policy.asked)
    assert found.episodes == len(experience.played)


def test_layers_of_our_games():
    """Independent agents of a trio are one layer, those of a chain three."""

    def played(dependency):
        env = marft_envs.make("marft/math_trio-v0", data="embedded:stories", dependency=dependency)
        policy = ScriptedPolicy(lambda agent, observation: "1")
        [found] = collect(lambda: env, policy, training_episodes(0, 0, 1, 1), seed=0)
        return found

    chain, independent = played("chain"), played("independent")
    assert [t.layer for t in chain.turns] == [t["layer"] for t in chain.game["turns"]] == [0, 1, 2]
    assert {t.layer for t in independent.turns} == {0}
    assert ledger_of([chain]).judge_calls == 1
    assert ledger_of([chain]).team.tool_calls == 0  # recorded, and none were made


def test_tool_calls_of_our_tools():
    env = marft_envs.make("marft/tools_solo-v0")
    call = '<tool_call>{"name": "no_such_tool", "arguments": {}}</tool_call>'
    [found] = collect(lambda: env, ScriptedPolicy(lambda *_: call), training_episodes(0, 0, 1, 1), seed=0)
    team = ledger_of([found]).team
    assert team.tool_calls == team.tool_failures == team.turns > 0


def test_seconds_are_measured_where_they_are_spent():
    class Slow(CopyDigit):
        def step(self, action):
            time.sleep(0.005)
            super().step(action)

    class Thinking(RandomPolicy):
        def act(self, requests):
            time.sleep(0.01)
            return super().act(requests)

    found = evaluate(Slow, Thinking(), [{}, {}]).ledger
    assert found.seconds_environment >= 4 * 0.005
    assert found.seconds_generation >= 2 * 0.01
    assert found.seconds_update is None
    timed = TimedPolicy(ScriptedPolicy(lambda *_: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        collect(CopyDigit, timed, training_episodes(0, 0, 1, 1), seed=0)
    assert timed.seconds > 0


def test_times_do_not_make_trajectories_differ():
    one, two = (collect(CopyDigit, Chooser(), training_episodes(0, 0, 1, 1), seed=0)[0] for _ in range(2))
    assert one.step_seconds > 0
    assert dataclasses.replace(one, turns=(), step_seconds=1.0) == dataclasses.replace(two, turns=())


def test_an_evaluation_and_a_validation_have_a_ledger():
    team = word_team({"speaker_0": "shared", "actor_0": "shared"})
    found = evaluate(CopyDigit, team, [{"seed": i} for i in range(4)], seeds=(0, 1))
    assert team.caches["speaker_0"] == team.caches["actor_0"]
    assert MixedPolicy({"speaker_0": team, "actor_0": RandomPolicy()}).caches.keys() == {"speaker_0"}
    assert found.ledger.episodes == 8
    assert found.ledger.team.output_tokens == sum(t.num_tokens for t in found.trajectories)
    assert found.ledger == dataclasses.replace(
        ledger_of(found.trajectories, team.caches, seconds_generation=found.ledger.seconds_generation)
    )
    metrics = Validator(CopyDigit, team, [{"seed": i} for i in range(4)], every=1).metrics("validation")
    assert metrics["validation/output_tokens_sum"] == 4 * metrics["validation/tokens"]


def test_an_update_logs_its_ledger():
    team = word_team(["buyer_0", "seller_0"])
    schedule = TrainingSchedule(groups=3, group_size=2, budget_tokens=10**6)
    trainer = Trainer(lambda: Market(cut=True), team, Learner(team, LearnerSettings()), schedule)
    first, second = trainer.step(), trainer.step()
    assert first["tokens_total"] == first["team/output_tokens_sum"] == first["team/tokens"]
    assert second["tokens_total"] == first["tokens_total"] + second["team/output_tokens_sum"]
    assert first["team/episodes_sum"] == 6
    assert first["team/turns_sum"] == first["buyer_0/turns_sum"] + first["seller_0/turns_sum"] == 42
    assert first["seconds/generation"] + first["seconds/environment"] <= first["seconds/rollout"]
    assert first["team/critical_path_tokens_sum"] == first["team/output_tokens_sum"]  # a market has no layers


# ------------------------------------------------------------------ speed


def test_counting_costs_little():
    """64 episodes of 8 turns with prompts of 1,000 tokens: a fraction of the second that one such update takes."""
    rng = np.random.default_rng(0)
    prompts = [rng.integers(0, 50_000, 600 + 100 * k).astype(np.int32) for k in range(8)]
    actions = [Action("", prompt, prompt[:100], np.zeros(0, np.float32), True) for prompt in prompts]
    turns = [SampledTurn(f"agent_{k % 4}", action, 0.0) for k, action in enumerate(actions)]
    played = [episode(*turns) for _ in range(64)]
    started = time.process_time()
    ledger_of(played)
    assert time.process_time() - started < 0.25
