"""Influence of messages in games where it is known: a reader that copies, one that ignores, and others beside it."""

import numpy as np
import pytest

from baselines.attribution.coalitions import CoalitionGames, silent
from baselines.attribution.message_influence import (
    Edge,
    FinalAnswer,
    ReplacedMessages,
    edges_of,
    first_reading,
    heard,
    influence,
    other_messages,
)
from baselines.attribution.run import AttributionPlan, play, summary
from marft_agents.policies.scripted import RandomPolicy, ScriptedPolicy
from marft_envs import FlexMG, Profile, Task, Team
from marft_envs.dependency import chain, full, independent, matrix, routed
from marft_envs.tasks.math import MathTasks

TASKS = [Task(f"add-{n}", f"What is {n} + 1?", str(n + 1), "train") for n in range(7)]
SCENARIOS = [{"index": n} for n in range(7)]


def toy_game(*names, dependency=None, **keywords):
    profiles = tuple(Profile(name, f"You are {name}.", answers=name == names[-1]) for name in names)
    return FlexMG(MathTasks("toy", TASKS), Team("toy", profiles, dependency or chain()), **keywords)


def solution(observation):
    return str(int(observation.partition("What is ")[2].split()[0]) + 1)


def said_by(author, observation):
    return [m["content"] for m in observation.messages if m.get("name") == author]


def games_of(script, *names, seeds=(0,), on_end=lambda _: None, **keywords):
    def make_env():
        return toy_game(*names, **keywords)

    return CoalitionGames(silent(make_env, ScriptedPolicy(script), names), names, SCENARIOS, seeds, on_end=on_end)


def found_on(games, *edge):
    return influence(games, games.play(frozenset(games.players)), Edge(*edge))


def test_a_reader_that_copies_is_influenced_always():
    def copying(agent, observation):
        return solution(observation) if agent == "a_0" else f"\\boxed{{{said_by('a_0', observation)[-1]}}}"

    found = found_on(games_of(copying, "a_0", "b_0"), "a_0", "b_0")
    assert found.before.tolist() == [[1.0]] * 7
    assert found.changed.tolist() == [[1.0]] * 7
    assert found.success.tolist() == [[0.0]] * 7


def test_a_reader_that_ignores_is_never_influenced():
    def ignoring(agent, observation):
        return f"\\boxed{{{solution(observation)}}}"

    found = found_on(games_of(ignoring, "a_0", "b_0", seeds=(0, 1)), "a_0", "b_0")
    assert found.changed.tolist() == [[0.0, 0.0]] * 7
    assert found.success.tolist() == found.before.tolist() == [[1.0, 1.0]] * 7


def test_an_equivalent_answer_is_no_change():
    """The reader writes its answer in another form for each message."""

    def rewriting(agent, observation):
        if agent == "a_0":
            return solution(observation)
        return f"\\boxed{{\\frac{{{2 * int(solution(observation))}}}{{2}}}}" if len(observation) % 2 else "\\boxed{1}"

    game = toy_game("a_0", "b_0")
    answers = FinalAnswer(game)
    assert answers.same("\\frac{4}{2}", "2")
    assert not answers.same("3", "2")
    assert answers.same(None, None)
    assert not answers.same(None, "2")
    found = found_on(games_of(rewriting, "a_0", "b_0"), "a_0", "b_0")
    assert found.changed.tolist() == [[0.0]] * 7  # the length of the observation stays


def test_only_the_reader_hears_the_other_message():
    """b_0 and c_0 see a_0. Where c_0's copy is replaced, b_0 still passes the original on."""
    ended = []

    def passing_on(agent, observation):
        if agent == "a_0":
            return solution(observation)
        if agent == "b_0":
            return f"b heard {said_by('a_0', observation)[-1]}"
        return f"\\boxed{{{said_by('a_0', observation)[-1]}}} and {said_by('b_0', observation)[-1]}"

    games = games_of(passing_on, "a_0", "b_0", "c_0", dependency=full(), on_end=ended.append)
    whole = games.play(frozenset(games.players))
    ended.clear()
    found = influence(games, whole, Edge("a_0", "c_0"))
    assert found.changed.tolist() == [[1.0]] * 7
    for trajectory in ended:
        own = str(trajectory.seed + 1)  # the seed of a scenario is its place
        assert trajectory.turns[-1].action.text.endswith(f"and b heard {own}")
        assert not trajectory.turns[-1].action.text.startswith(f"\\boxed{{{own}}}")


def test_scenarios_without_another_message_are_left_out():
    games = games_of(lambda agent, observation: "the same" if agent == "a_0" else "\\boxed{1}", "a_0", "b_0")
    assert np.isnan(found_on(games, "a_0", "b_0").changed).all()


def test_turns_before_the_reader_are_replayed():
    asked = []

    class Asked(RandomPolicy):
        def act(self, requests):
            asked.extend(request.agent for request in requests)
            return super().act(requests)

    names = ("a_0", "b_0", "c_0")

    def make_env():
        return toy_game(*names, horizon=2, dependency=full(delayed="all"))

    games = CoalitionGames(silent(make_env, Asked(), names), names, SCENARIOS)
    whole = games.play(frozenset(names))
    asked.clear()
    influence(games, whole, Edge("a_0", "c_0"))
    assert {agent: asked.count(agent) for agent in names} == {"a_0": 7, "b_0": 7, "c_0": 14}
    asked.clear()
    influence(games, whole, Edge("c_0", "a_0"))  # heard in the second round
    assert {agent: asked.count(agent) for agent in names} == {"a_0": 7, "b_0": 7, "c_0": 7}


@pytest.mark.parametrize("form", ["full", "last", "tail:3", "summary", "none"])
def test_messages_are_those_of_the_readers_last_observation(form):
    names = ("a_0", "b_0", "c_0")
    seen = {}

    def watching(agent, observation):
        if agent == "b_0":
            seen[int(solution(observation)) - 1] = tuple(said_by("a_0", observation))
        return f"{agent} thinks, in {len(observation)} characters.\n\nSummary: {solution(observation)}"

    games = games_of(watching, *names, dependency=full(delayed="all"), horizon=3, communication=form)
    whole = games.play(frozenset(names))
    communication = toy_game(*names, communication=form).communication
    for place, record in enumerate(whole.episodes[0]):
        assert first_reading(record, Edge("a_0", "b_0")) == 1
        assert first_reading(record, Edge("b_0", "a_0")) == 3
        assert heard(record, Edge("a_0", "b_0"), communication) == seen[place]
    texts = other_messages(whole.episodes[0], Edge("a_0", "b_0"), communication, seed=0)
    assert [bool(text) for text in texts] == [form != "none"] * 7


def test_later_messages_beyond_the_others_repeat_its_last():
    game = toy_game("a_0", "b_0", dependency=full(delayed="all"), horizon=3)
    view = ReplacedMessages(game)
    view.reset(
        seed=0, options={"index": 0, "replaced_messages": {"author": "a_0", "reader": "b_0", "texts": ["x", "y"]}}
    )
    for number in range(3):
        assert said_by("b_0", view.observe("a_0")) == ["from b"] * number  # only the reader's view is changed
        view.step(f"original {number}")
        assert said_by("a_0", view.observe("b_0")) == ["x", "y", "y"][: number + 1]
        view.step("from b")
    view.reset(seed=0, options={"index": 0})
    view.step("original")
    assert said_by("a_0", view.observe("b_0")) == ["original"]


def test_edges_are_those_on_which_messages_can_flow():
    names = ("a_0", "b_0", "c_0")
    assert edges_of(toy_game(*names)) == [("a_0", "b_0"), ("b_0", "c_0")]
    assert edges_of(toy_game(*names, dependency=independent())) == []
    two_ways = matrix([[0, 0, 1], [0, 0, 1], [0, 0, 0]], delayed=[[0, 0, 0], [0, 0, 0], [1, 0, 0]])
    assert edges_of(toy_game(*names, dependency=two_ways)) == [("a_0", "c_0"), ("b_0", "c_0")]
    assert edges_of(toy_game(*names, dependency=two_ways, horizon=2))[-1] == ("c_0", "a_0")
    assert len(edges_of(toy_game(*names, dependency=routed(by="a_0")))) == 6


def test_summary_and_resume(tmp_path):
    def copying(agent, observation):
        return solution(observation) if agent == "a_0" else f"\\boxed{{{said_by('a_0', observation)[-1]}}}"

    names = ("a_0", "b_0")
    plan = AttributionPlan(names, "shapley", "silence", (Edge(*names),), SCENARIOS)
    replaced = silent(lambda: toy_game(*names), ScriptedPolicy(copying), names)
    results, edges = play(plan, replaced, tmp_path)
    [found] = summary(plan, results, edges)["influence"]
    assert (found["author"], found["reader"], found["scenarios"]) == ("a_0", "b_0", 7)
    assert [found[key]["mean"] for key in ("answer_changed", "success_changed", "success_gain")] == [1.0, 1.0, 1.0]
    assert found["per_scenario"]["after"] == [0.0] * 7
    ended = []
    _, [again] = play(plan, replaced, tmp_path, ended.append)
    assert ended == []
    assert again.to_dict() == edges[0].to_dict()
