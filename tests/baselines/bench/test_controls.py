"""The controls of `marft bench`: what each agent sees, and what a majority is."""

import functools
import itertools
from typing import ClassVar

import numpy as np
import pytest

import marft_envs
from baselines.bench.controls import (
    HeardMessages,
    ShuffledTeammates,
    anonymous,
    donors,
    majority,
    renamed_keywords,
    samples_to_match,
    scenario_key,
    vote_score,
    voting_tasks,
)
from marft_agents.policies.scripted import ScriptedPolicy
from marft_agents.runs.evaluation import evaluate
from marft_agents.trajectory import Trajectory
from marft_envs import Outcome, Team
from marft_envs.game.episode import Episode

STORIES = {"data": "embedded:stories", "split": "test"}
OPTIONS = [{"index": i} for i in range(4)]


class Listener:
    """A scripted policy that says where it is, and notes the messages that it was given."""

    def __init__(self):
        self.seen = []

    def __call__(self, agent, observation):
        told = [(m.get("name", ""), m["content"]) for m in observation.messages[observation.fixed_messages :]]
        problem = observation.messages[observation.fixed_messages - 1]["content"]
        own = sum(m["role"] == "assistant" for m in observation.messages[observation.fixed_messages :])
        self.seen.append((agent, problem, told))
        return f"{agent} {own} on {problem[:12]} \\boxed{{1}}"


def play(make_env, wrapped=None):
    listener = Listener()
    evaluate(wrapped or make_env, ScriptedPolicy(listener), OPTIONS, patience=float("inf"))
    return listener.seen


def by_agent(seen):
    """Return the texts from teammates by agent, problem and turn."""
    found = {}
    for agent, problem, told in seen:
        found.setdefault((agent, problem), []).append([(a, t) for a, t in told if a not in (agent, "environment")])
    return found


def two_passes(make_env, donor_of):
    heard = {}
    intact = play(make_env, lambda: HeardMessages(make_env(), heard))
    shuffled = play(make_env, lambda: ShuffledTeammates(make_env(), heard, donor_of))
    return by_agent(intact), by_agent(shuffled)


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("dependency", ["chain", "full"])
def test_a_shuffled_agent_hears_exactly_its_donors_teammates(rounds, dependency):
    team = Team.preset("trio").to_dict()
    make_env = functools.partial(
        marft_envs.make, "marft/gsm8k_trio-v0", **STORIES, team=team, horizon=rounds, dependency=dependency
    )
    keys = [scenario_key(option) for option in OPTIONS]
    donor_of = {keys[i]: keys[donor] for i, donor in enumerate(donors(4, 0))}
    intact, shuffled = two_passes(make_env, donor_of)
    env = make_env()
    problems = [env.unwrapped.tasks[i].prompt for i in range(4)]
    assert len(shuffled) == 3 * 4
    for i, donor in enumerate(donors(4, 0)):
        assert donor != i
        for agent in env.possible_agents:
            assert shuffled[agent, problems[i]] == intact[agent, problems[donor]]
    assert any(itertools.chain.from_iterable(shuffled["actor_0", problems[0]]))


def test_a_game_shuffled_with_itself_is_the_intact_game():
    make_env = functools.partial(marft_envs.make, "marft/gsm8k_octet-v0", **STORIES, horizon=2)
    intact, shuffled = two_passes(make_env, {scenario_key(option): scenario_key(option) for option in OPTIONS})
    assert shuffled == intact


def test_messages_that_the_donor_does_not_have_are_left_out():
    make_env = functools.partial(marft_envs.make, "marft/gsm8k_duo-v0", **STORIES)
    env = ShuffledTeammates(make_env(), {"other": {}}, {scenario_key({"index": 0}): "other"})
    env.reset(seed=0, options={"index": 0})
    env.step("a hint")
    said = env.observe("actor_0").messages
    assert "a hint" not in str(said)
    assert "a hint" in str(env.unwrapped.observe("actor_0"))  # the game itself is the same
    assert said[: env.observe("actor_0").fixed_messages] == env.unwrapped.observe("actor_0").messages[: len(said)]


def test_every_scenario_has_another_donor_and_each_donates_once():
    for count, seed in itertools.product(range(2, 9), range(3)):
        found = donors(count, seed)
        assert sorted(found) == list(range(count))
        assert all(donor != i for i, donor in enumerate(found))
    assert donors(9, 1) == donors(9, 1) != donors(9, 2)


def test_nothing_of_a_role_is_left_in_an_anonymous_team():
    team, solo = Team.preset("laptop_duo").to_dict(), Team.preset("laptop_solo").to_dict()
    found, old_names = anonymous(team, solo)
    assert old_names == {"agent_0": "reasoner_0", "agent_1": "actor_0"}
    env = marft_envs.make("marft/gsm8k_duo-v0", **STORIES, team=found)
    listener = Listener()
    evaluate(lambda: env, ScriptedPolicy(listener), OPTIONS[:1])
    env.reset(seed=0, options={"index": 0})
    first = env.observe("agent_0").messages
    env.step("3 + 2")
    second = env.observe("agent_1").messages
    fixed = env.observe("agent_1").fixed_messages
    contents = [[m["content"] for m in messages[: fixed - 1]] for messages in (first, second)]
    assert contents[0] == contents[1]  # all agents are told the same
    assert contents[0][0] == solo["profiles"][0]["system_prompt"]
    assert second[fixed:] == ({"role": "user", "content": "3 + 2", "name": "agent_0"},)
    told = str(found["profiles"])
    for word in ("reasoner", "actor", *(profile["system_prompt"] for profile in team["profiles"])):
        assert word not in told
    assert [profile["answers"] for profile in found["profiles"]] == [False, True]


def test_an_anonymous_team_keeps_its_dependency_tools_and_private_texts():
    team, solo = Team.preset("duo", family="tools").to_dict(), Team.preset("solo", family="tools").to_dict()
    team["profiles"][0]["private"] = "The key is 7."
    team["dependency"] = {"kind": "handoff", "start": "writer_0"}
    found, names = anonymous(team, solo)
    assert [p["tools"] for p in found["profiles"]] == [p["tools"] for p in team["profiles"]]
    assert found["profiles"][0]["private"] == "The key is 7."
    assert found["dependency"] == {"kind": "handoff", "start": "agent_1"}
    keywords = {"communication": {"default": "full", "reader_0->writer_0": "tail:3"}, "horizon": 3}
    assert renamed_keywords(keywords, names) == {
        "communication": {"default": "full", "agent_0->agent_1": "tail:3"},
        "horizon": 3,
    }


@pytest.mark.parametrize("env_id", ["marft/gsm8k_trio-v0", "marft/math_octet-v0"])
def test_a_muted_agent_is_told_no_action_of_another(env_id):
    make_env = functools.partial(marft_envs.make, env_id, split="test", horizon=2, communication="none")
    assert not any(itertools.chain.from_iterable(itertools.chain.from_iterable(by_agent(play(make_env)).values())))


# ------------------------------------------------------------------ vote


def episode(detail, success, failure=None):
    outcome = Outcome(0.0, True, bool(success), not detail, detail=detail)
    game = Episode("test/x-v0", {}, 0, "x", "", (), (None, outcome), (0.0,), True, False).to_dict()
    return Trajectory(0, 0, (), True, False, infos={"success": float(success)}, failure=failure, game=game)


def answer(text, success, **more):
    return episode({} if text is None else {"extracted": text}, success, **more)


def test_answers_are_counted_by_the_graders_equivalence():
    tasks = voting_tasks(marft_envs.make("marft/math_duo-v0"))
    samples = [answer("3", False), answer("0.5", True), answer(r"\frac{1}{2}", True), answer("3", False)]
    assert majority([*samples, answer("1/2", True)], tasks) == 1
    assert vote_score([*samples, answer("1/2", True)], tasks) == 1.0
    assert vote_score(samples, tasks) == 0.0  # two against two: the first to vote wins
    assert vote_score([answer(None, False), answer("7", True)], tasks) == 1.0  # no answer is an abstention
    assert vote_score([answer(None, False)], tasks) == 0.0
    assert np.isnan(vote_score([answer("7", True, failure="the judge is gone")], tasks))


def test_programs_are_counted_by_their_verdicts():
    tasks = voting_tasks(marft_envs.make("marft/codeforces_duo-v1", judge="landlock"))

    def program(verdict, passed, success):
        return episode({"verdict": verdict, "passed": passed}, success)

    samples = [program("WA", 3, False), program("OK", 9, True), program("WA", 4, False), program("OK", 9, True)]
    assert majority(samples, tasks) == 1
    assert vote_score([program("WA", 3, False), program("WA", 3, False), program("OK", 9, True)], tasks) == 0.0
    assert majority([episode({}, False), program("WA", 3, False)], tasks) == 1  # no program is an abstention


def test_worlds_are_counted_by_their_final_states():
    make_env = functools.partial(marft_envs.make, "marft/tools_solo-v0", data="embedded:lookup", split="test")
    env = make_env()
    tasks = voting_tasks(env)
    [task] = [env.unwrapped.tasks[0]]
    right = next(call for call in task.reference if call.name == "write_label").arguments
    by_run = iter([right["price"], 1, right["price"]])

    def run():
        price = next(by_run)
        calls = [f'write_label(ware="{right["ware"]}", price={number})' for number in (1, price)]
        text = "\n".join([*calls, "finish()"])
        return evaluate(make_env, ScriptedPolicy(lambda agent, seen: text), OPTIONS[:1]).trajectories[0]

    def vote(trajectory):
        return tasks.vote(Episode.from_dict(trajectory.game).outcomes)

    first, wrong, again = run(), run(), run()
    assert vote(first) == vote(again) != vote(wrong)
    assert majority([wrong, first, again], tasks) == 1


class Digits:
    """A third party's set of tasks, as far as a vote needs it."""

    def vote(self, outcomes):
        return [outcomes[-1].detail["extracted"]]  # no hash is needed


def test_a_third_partys_tasks_vote():
    class Game:
        metadata: ClassVar = {"lists_tasks": True}
        tasks = Digits()

    env = type("Env", (), {"unwrapped": Game()})()
    assert voting_tasks(env) is Game.tasks
    Game.tasks = object()
    assert voting_tasks(env) is None


def test_groups_of_one_size_are_won_by_the_first_vote():
    assert majority([answer(text, False) for text in "31132"], Digits()) == 0
    assert majority([], Digits()) is None


@pytest.mark.parametrize(
    ("team", "solo", "k"), [(30, 10, 3), (34, 10, 3), (36, 10, 4), (4, 10, 1), (15, 10, 1), (9, 0, 1)]
)
def test_so_many_samples_come_nearest_to_the_teams_tokens(team, solo, k):
    assert samples_to_match(team, solo) == k
