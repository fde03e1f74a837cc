"""The composite team reward: every term by hand, and the sum from a game and from its record."""

from __future__ import annotations

import pytest

import marft_envs
from marft_envs import Outcome
from marft_envs.game.episode import Episode
from marft_envs.game.rewards import PRESETS, TERMS, TeamReward, longest_exchange
from marft_envs.game.task import JudgeFailure
from marft_envs.game.turn import Turn


def call(status="ok", round=0, agent="a_0"):
    return {"kind": "call", "round": round, "agent": agent, "name": "look", "status": status}


def hand_off(giver, taker):
    return {"kind": "hand_off", "round": 0, "agent": giver, "to": taker}


def episode(*events, detail=None, success=False, actions=("abcd",), faults=(), reward=0.0, horizon=4):
    turns = tuple(
        Turn("a_0", number, 0, (), "seen", action, "bad" if number in faults else "")
        for number, action in enumerate(actions)
    )
    outcome = Outcome(reward, success, success, False, detail=detail or {}, events=tuple(events))
    return Episode("x", {"horizon": horizon}, 0, "t", "f", turns, (None, outcome), (0.0, reward), success, not success)


BY_HAND = {
    "completion": [(episode(success=True), 1.0), (episode(), 0.0)],
    "trajectory": [(episode(detail={"trajectory": 0.25}), 0.25), (episode(), None)],
    "progress": [(episode(detail={"progress": 0.5}), 0.5), (episode(reward=0.75), 0.75), (episode(reward=-3.0), 0.0)],
    "steps": [(episode(horizon=4), 0.5), (episode(horizon=2), 1.0)],
    "tool_errors": [(episode(call(), call("error"), call("refused"), call()), 0.5), (episode(), 0.0)],
    "token_cost": [(episode(actions=("x" * 4096, "y" * 4096)), 0.5), (episode(actions=("x" * 99999,)), 1.0)],
    "tool_selection": [(episode(detail={"tool_selection": 1.0}), 1.0), (episode(), None)],
    "handoff_loops": [
        (episode(hand_off("a_0", "b_0"), hand_off("b_0", "a_0")), 0.0),
        (episode(*[hand_off("a_0", "b_0"), hand_off("b_0", "a_0")] * 2), 0.5),
        (episode(hand_off("a_0", "b_0"), hand_off("b_0", "c_0"), hand_off("c_0", "a_0")), 0.0),
    ],
    "format": [
        (episode(actions=("a", "b", "c", "d"), faults=(1,)), 0.75),
        (episode(call("unreadable", round=0), actions=("a", "b")), 0.5),
        (episode(actions=()), 1.0),
    ],
}


def test_every_term_is_worked_by_hand():
    assert set(BY_HAND) == set(TERMS)


@pytest.mark.parametrize(("name", "record", "wanted"), [(n, e, w) for n, cases in BY_HAND.items() for e, w in cases])
def test_term(name, record, wanted):
    assert TERMS[name](record) == wanted
    assert TERMS[name](Episode.from_json(record.to_json())) == wanted


def test_the_recipe_of_the_field():
    record = episode(call("error"), call(), detail={"trajectory": 0.5, "progress": 1.0}, success=True)
    reward = TeamReward.of("recipe")
    assert reward.total(reward.terms(record)) == pytest.approx(1.0 + 0.25 - 0.1 * 0.5 - 0.2 * 0.5 + 0.3)


def test_a_term_that_a_task_does_not_define_is_left_out():
    assert TeamReward.of("recipe").terms(episode()).keys() == PRESETS["recipe"].keys() - {"trajectory"}


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_the_longest_exchange_counts_passes(count):
    passes = [("a", "b"), ("b", "a")] * 4
    assert longest_exchange([("c", "a"), *passes[:count], ("x", "y")]) == count
    assert longest_exchange([]) == 0


@pytest.mark.parametrize("spec", [{}, {"speed": 1.0}, {"completion": "1"}, {"completion": float("nan")}, "best"])
def test_bad_weights_are_refused(spec):
    with pytest.raises(ValueError, match="reward: "):
        TeamReward.of(spec)


def test_a_game_pays_at_its_end_and_logs_every_term():
    env = marft_envs.make("marft/math_duo-v0", reward={"completion": 1.0, "steps": -0.1}, horizon=2)
    env.reset(seed=0)
    gold = env.unwrapped.task.answer
    assert env.infos["actor_0"]["term_steps"] == 0.0
    for action in ("think", "\\boxed{wrong}", "think"):
        env.step(action)
        assert set(env.rewards.values()) == {0.0}
    env.step(f"\\boxed{{{gold}}}")
    assert env.rewards == pytest.approx(dict.fromkeys(env.possible_agents, 0.9))
    record = Episode.from_json(env.unwrapped.episode().to_json())
    reward = TeamReward(record.settings["reward"])
    assert record.terms == reward.terms(record) == {"completion": 1.0, "steps": 1.0}
    assert reward.total(record.terms) == pytest.approx(sum(record.rewards))
    assert env.infos["actor_0"]["term_completion"] == 1.0


# ------------------------------------------------------------------ own terms


def mean_length(episode):
    return sum(len(turn.action) for turn in episode.turns) / len(episode.turns)


def test_an_own_term_gets_the_episode_and_travels_as_data(monkeypatch, tmp_path):
    (tmp_path / "marft_length_term.py").write_text("def turns(episode):\n    return len(episode.turns)\n")
    monkeypatch.syspath_prepend(tmp_path)
    spec = {"completion": 1.0, "turns": {"function": "marft_length_term:turns", "weight": -0.25}}
    env = marft_envs.make("marft/math_duo-v0", reward=spec)
    env.reset(seed=0)
    assert env.infos["actor_0"]["term_turns"] == 0.0
    env.step("think")
    env.step(f"\\boxed{{{env.unwrapped.task.answer}}}")
    assert set(env.rewards.values()) == {0.5}
    record = Episode.from_json(env.unwrapped.episode().to_json())
    assert record.terms == {"completion": 1.0, "turns": 2.0}
    assert record.settings["reward"] == spec
    again = TeamReward.of(record.settings["reward"])
    assert again == TeamReward.of(spec)
    assert again.total(again.terms(record)) == 0.5


def test_an_own_term_may_be_a_function_and_weighs_1_unless_said_otherwise():
    reward = TeamReward({"length": 0.0}, {"length": mean_length})
    assert reward.terms(episode(actions=("ab", "abcd"))) == {"length": 3.0}
    assert reward.to_dict()["length"]["function"].endswith("test_rewards:mean_length")
    assert TeamReward.of({"size": {"function": "builtins:len"}}).weights == {"size": 1.0}


@pytest.mark.parametrize(
    ("term", "cause"),
    [
        (lambda episode: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda episode: float("nan"), "found nan, wanted a finite number"),
        (lambda episode: float("inf"), "found inf, wanted a finite number"),
        (lambda episode: None, "found None, wanted a finite number"),
        (lambda episode: "1", "found '1', wanted a finite number"),
        (lambda: 1.0, "TypeError"),
    ],
)
def test_a_faulty_own_term_fails_the_episode_with_its_cause(term, cause):
    env = marft_envs.make("marft/math_solo-v0", reward=TeamReward({"mine": 1.0}, {"mine": term}))
    env.reset(seed=0)
    with pytest.raises(JudgeFailure, match=f"reward term 'mine' on task '{env.unwrapped.task.id}': {cause}"):
        env.step("1")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"mine": {"function": "math"}}, "own term 'mine': found 'math', wanted a function of the Episode"),
        ({"mine": {"function": "no_such_module_here:f"}}, "own term 'mine': .*cannot be imported"),
        ({"mine": {"function": 3}}, "own term 'mine' is int, wanted a function"),
        ({"mine": {"weight": 3}}, "own term 'mine' has .'weight'., wanted function and perhaps weight"),
        ({"mine": {"function": "builtins:len", "weight": "much"}}, "the weight of 'mine' is 'much'"),
        ({"steps": {"function": "builtins:len"}}, "own term 'steps': wanted a name .* that no term has yet"),
        ({"a/b": {"function": "builtins:len"}}, "own term 'a/b': wanted a name of letters"),
    ],
)
def test_a_bad_own_term_is_refused_before_any_game(spec, message):
    with pytest.raises(ValueError, match=message):
        marft_envs.make("marft/math_solo-v0", reward=spec)
