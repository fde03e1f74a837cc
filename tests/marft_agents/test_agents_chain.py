"""From trajectories to advantages against a double sum that knows nothing of `chain_steps`: any team, any end."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from marft_agents.batch import links
from marft_agents.credit import estimate
from marft_agents.records import Action, Trajectory, Turn
from marft_agents.settings import LearnerSettings

REWARDS = st.floats(-3, 3, allow_nan=False)


def action(length: int) -> Action:
    return Action("x", np.arange(3, dtype=np.int32), np.zeros(length, np.int32), np.zeros(length, np.float32), True)


@st.composite
def episodes(draw):
    """Who acts in what order for how many rounds; the end falls on any agent of any round."""
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
        "value_seed": draw(st.integers(0, 2**16)),
        "level": draw(st.sampled_from(["action", "token"])),
    }


def double_sum(episode, lengths, values):
    """A_k = sum over m >= k of (product of gamma lambda from k to m - 1) * delta_m, each laid out by hand."""
    gammas, lambdas, rewards = [], [], []
    for turn, length in enumerate(lengths):
        for step in range(length):
            ends_turn = step == length - 1
            ends_game = ends_turn and turn == len(lengths) - 1 and not episode["truncated"]
            rewards.append(episode["rewards"][turn] if ends_turn else 0.0)
            gammas.append(0.0 if ends_game else episode["discount"] if ends_turn else 1.0)
            lambdas.append(episode["trace_decay"] if ends_turn else 1.0)
    following = [*values[1:], episode["bootstrap"]]
    deltas = [r + g * v_next - v for r, g, v_next, v in zip(rewards, gammas, following, values, strict=True)]
    return [
        sum(np.prod([gammas[j] * lambdas[j] for j in range(k, m)]) * deltas[m] for m in range(k, len(deltas)))
        for k in range(len(deltas))
    ]


@settings(deadline=None, max_examples=150)
@given(episodes())
def test_chained_gae_of_a_trajectory_is_the_double_sum(episode):
    turns = tuple(
        Turn(f"agent_{k % episode['agents']}", action(length), reward, k // episode["agents"])
        for k, (reward, length) in enumerate(zip(episode["rewards"], episode["lengths"], strict=True))
    )
    trajectory = Trajectory(0, 0, turns, not episode["truncated"], episode["truncated"])
    knobs = LearnerSettings(level=episode["level"], discount=episode["discount"], trace_decay=episode["trace_decay"])
    lengths = episode["lengths"] if episode["level"] == "token" else [1] * len(turns)
    rng = np.random.default_rng(episode["value_seed"])
    values = [rng.normal(size=n) for n in lengths]
    samples = estimate([trajectory], links([trajectory]), values, {(0, ""): episode["bootstrap"]}, knobs)
    found = np.concatenate([s.returns - s.values for s in samples])
    np.testing.assert_allclose(found, double_sum(episode, lengths, np.concatenate(values)), atol=1e-9)


def test_a_truncation_that_nobody_values_counts_as_an_end():
    trajectory = Trajectory(0, 0, (Turn("agent_0", action(1), 1.0),), False, True)
    [sample] = estimate([trajectory], links([trajectory]), [np.zeros(1)], {}, LearnerSettings())
    assert sample.returns.tolist() == [1.0]


def test_centring_within_a_task_draw():
    # returns 1 0 | 1 1: within the draws 0.5 -0.5 | 0 0, with standard deviation sqrt(1/8)
    played = [
        Trajectory(0, group, (Turn("agent_0", action(1), reward),), True, False)
        for group, reward in ((0, 1.0), (0, 0.0), (1, 1.0), (1, 1.0))
    ]
    for centring, wanted in (("group", [2**0.5, -(2**0.5), 0, 0]), ("batch", [3**-0.5, -(3**0.5), 3**-0.5, 3**-0.5])):
        knobs = LearnerSettings(centring=centring)
        samples = estimate(played, links(played), [np.zeros(1)] * 4, {}, knobs)
        np.testing.assert_allclose(np.concatenate([s.advantages for s in samples]), wanted, atol=1e-9)
