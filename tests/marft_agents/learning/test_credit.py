"""From trajectories to advantages against a double sum that knows nothing of `chain_steps`: any team, any end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marft_agents.learning.batch import build_batch
from marft_agents.learning.settings import LearnerSettings
from marft_agents.trajectory import Action, SampledTurn, Trajectory
from tests.helpers.rows import credited

REWARDS = st.floats(-3, 3, allow_nan=False)


def action(length: int) -> Action:
    return Action("x", np.arange(3, dtype=np.int32), np.zeros(length, np.int32), np.zeros(length, np.float32), True)


@st.composite
def episodes(draw):
    """Draw the turn order, the number of rounds, and an end at any agent of any round."""
    agents = draw(st.integers(1, 5))
    turns = draw(st.integers(1, 3 * agents))
    return {
        "agents": agents,
        "rewards": draw(st.lists(REWARDS, min_size=turns, max_size=turns)),
        "lengths": draw(st.lists(st.integers(1, 4), min_size=turns, max_size=turns)),
        "truncated": draw(st.booleans()),
        "bootstrap": draw(REWARDS),
        "discount": draw(st.floats(0, 1)),
        "trace_decay": draw(st.floats(0, 1)),
        "token_discount": draw(st.floats(0, 1)),
        "token_trace_decay": draw(st.floats(0, 1)),
        "value_seed": draw(st.integers(0, 2**16)),
        "level": draw(st.sampled_from(["action", "token"])),
    }


def double_sum(episode, turn_rewards, lengths, values, bootstrap):
    """A_k = sum over m >= k of (product of gamma lambda from k to m - 1) * delta_m, each laid out by hand."""
    gammas, lambdas, rewards = [], [], []
    for turn, length in enumerate(lengths):
        for step in range(length):
            ends_turn = step == length - 1
            ends_game = ends_turn and turn == len(lengths) - 1 and not episode["truncated"]
            rewards.append(turn_rewards[turn] if ends_turn else 0.0)
            gammas.append(0.0 if ends_game else episode["discount" if ends_turn else "token_discount"])
            lambdas.append(episode["trace_decay" if ends_turn else "token_trace_decay"])
    following = [*values[1:], bootstrap]
    deltas = [r + g * v_next - v for r, g, v_next, v in zip(rewards, gammas, following, values, strict=True)]
    return [
        sum(np.prod([gammas[j] * lambdas[j] for j in range(k, m)]) * deltas[m] for m in range(k, len(deltas)))
        for k in range(len(deltas))
    ]


def trajectory_of(episode):
    turns = tuple(
        SampledTurn(f"agent_{k % episode['agents']}", action(length), reward, k // episode["agents"])
        for k, (reward, length) in enumerate(zip(episode["rewards"], episode["lengths"], strict=True))
    )
    return Trajectory(0, 0, turns, not episode["truncated"], episode["truncated"])


def knobs_of(episode, **others):
    per_token = ("token_discount", "token_trace_decay") if episode["level"] == "token" else ()
    names = ("level", "discount", "trace_decay", *per_token)
    return LearnerSettings(**{name: episode[name] for name in names}, **others)


def values_of(episode):
    rng = np.random.default_rng(episode["value_seed"])
    return [rng.normal(size=n if episode["level"] == "token" else 1) for n in episode["lengths"]]


@settings(deadline=None, max_examples=150)
@given(episodes())
def test_chained_gae_of_a_trajectory_is_the_double_sum(episode):
    trajectory, values = trajectory_of(episode), values_of(episode)
    bootstraps = {(0, ""): episode["bootstrap"]}
    samples = credited([trajectory], values, bootstraps, knobs_of(episode))
    found = np.concatenate([s.returns - s.values for s in samples])
    wanted = double_sum(
        episode, episode["rewards"], [len(v) for v in values], np.concatenate(values), episode["bootstrap"]
    )
    np.testing.assert_allclose(found, wanted, atol=1e-9)


@settings(deadline=None, max_examples=100)
@given(episodes())
def test_gae_along_ones_own_turns_is_the_double_sum(episode):
    """With credit="own", an agent's reward is the team's reward between its turns; truncation is handled per agent."""
    trajectory, values = trajectory_of(episode), values_of(episode)
    agents = [turn.agent for turn in trajectory.turns]
    bootstraps = {(0, agent): episode["bootstrap"] + i for i, agent in enumerate(sorted(set(agents)))}
    samples = credited([trajectory], values, bootstraps, knobs_of(episode, credit="own", value_trace_decay=None))
    for agent in set(agents):
        own = [k for k, name in enumerate(agents) if name == agent]
        rewards = [sum(episode["rewards"][k:end]) for k, end in zip(own, [*own[1:], len(agents)], strict=True)]
        mine = [values[k] for k in own]
        wanted = double_sum(episode, rewards, [len(v) for v in mine], np.concatenate(mine), bootstraps[0, agent])
        np.testing.assert_allclose(
            np.concatenate([samples[k].returns for k in own]) - np.concatenate(mine), wanted, atol=1e-9
        )


@settings(deadline=None, max_examples=100)
@given(episodes(), st.floats(0, 1))
def test_the_targets_lambda_reaches_inside_turns_and_its_gamma_is_that_of_the_advantages(episode, decay):
    trajectory, values = trajectory_of(episode), values_of(episode)
    bootstraps = {(0, ""): episode["bootstrap"]}
    knobs = knobs_of(episode, value_trace_decay=decay, centring="none", scaling="none")
    samples = credited([trajectory], values, bootstraps, knobs)
    flat, lengths = np.concatenate(values), [len(v) for v in values]
    of_values = {**episode, "trace_decay": decay, "token_trace_decay": decay}
    for found, as_set in (
        (samples_of(samples, "returns") - flat, of_values),
        (samples_of(samples, "advantages"), episode),
    ):
        wanted = double_sum(as_set, episode["rewards"], lengths, flat, episode["bootstrap"])
        np.testing.assert_allclose(found, wanted, atol=1e-9)


def samples_of(samples, name):
    return np.concatenate([getattr(sample, name) for sample in samples])


def test_a_truncation_that_nobody_values_counts_as_an_end():
    trajectory = Trajectory(0, 0, (SampledTurn("agent_0", action(1), 1.0),), False, True)
    [sample] = credited([trajectory], [np.zeros(1)], {}, LearnerSettings())
    assert sample.returns.tolist() == [1.0]


def test_centring_within_a_task_draw():
    # returns 1 0 | 1 1: within the draws 0.5 -0.5 | 0 0, with standard deviation sqrt(1/8)
    played = [
        Trajectory(0, group, (SampledTurn("agent_0", action(1), reward),), True, False)
        for group, reward in ((0, 1.0), (0, 0.0), (1, 1.0), (1, 1.0))
    ]
    for centring, wanted in (("group", [2**0.5, -(2**0.5), 0, 0]), ("batch", [3**-0.5, -(3**0.5), 3**-0.5, 3**-0.5])):
        knobs = LearnerSettings(centring=centring)
        samples = credited(played, [np.zeros(1)] * 4, {}, knobs)
        np.testing.assert_allclose(np.concatenate([s.advantages for s in samples]), wanted, atol=1e-9)


# ------------------------------------------------------------------ along what requests of a program read

READS = ([], [[0, "message"]], [[0, "tokens"]], [[1, "message"]])  # a plan, two readers of it, and a reader of one


def program(lengths=(1, 1, 1, 1)):
    turns = [
        SampledTurn(agent, action(length), reward, k)
        for k, (agent, length, reward) in enumerate(zip("abcd", lengths, (0.0, 0.0, 0.0, 1.0), strict=True))
    ]
    return Trajectory(0, 0, tuple(turns), True, False, game={"turns": [{"reads": reads} for reads in READS]})


@pytest.mark.parametrize(("level", "lengths"), [("action", (3, 2, 1, 1)), ("token", (1, 1, 1, 1))])
def test_credit_along_reads_goes_from_the_first_reader_to_what_it_read(level, lengths):
    knobs = LearnerSettings(
        level=level, chain_links="reads", discount=0.5, trace_decay=0.4, scaling="none", centring="none"
    )
    samples = credited([program(lengths)], [np.array([v]) for v in (0.1, 0.2, 0.3, 0.4)], {}, knobs)
    last, nobody_read = 1 - 0.4, 1 - 0.3
    second = 0.5 * 0.4 - 0.2 + 0.5 * 0.4 * last
    first = 0.5 * 0.2 - 0.1 + 0.5 * 0.4 * second
    np.testing.assert_allclose([s.credit.item() for s in samples], [first, second, nobody_read, last])


def test_credit_along_reads_passes_through_the_tokens_of_an_action():
    knobs = LearnerSettings(
        level="token", chain_links="reads", discount=0.5, trace_decay=1.0, scaling="none", centring="none"
    )
    values = [np.array([0.1]), np.array([0.2, 0.7]), np.array([0.3]), np.array([0.4])]
    found = [s.credit.tolist() for s in credited([program((1, 2, 1, 1))], values, {}, knobs)]
    for expected, credit in zip(([0.25 - 0.1], [0.5 - 0.2, 0.5 - 0.7], [0.7], [0.6]), found, strict=True):
        np.testing.assert_allclose(credit, expected)


def test_reads_lead_through_agents_that_are_not_trained():
    knobs = LearnerSettings(chain_links="reads")
    assert build_batch([program()], {"all": list("abcd")}, knobs).reader.tolist() == [1, 3, -1, -1]
    assert build_batch([program()], {"some": list("acd")}, knobs).reader.tolist() == [2, -1, -1]
    assert build_batch([program()], {"some": list("ad")}, knobs).reader.tolist() == [3, -1]
    assert build_batch([program()], {"all": list("abcd")}, LearnerSettings()).reader.tolist() == [-1] * 4
