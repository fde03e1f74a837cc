"""The training batch: sizes of its flat arrays, selections, and turns that belong to the environment."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marft_agents.learning.batch import FLAT, PER_ACTION, Batch, build_batch
from marft_agents.learning.settings import LearnerSettings
from marft_agents.trajectory import Action, SampledTurn, Trajectory

POLICIES = {"a": ["a_0"], "pair": ["b_0", "c_0"]}


def turn(agent, tokens, number=0, *, reward=0.0, start=0):
    logprobs = np.arange(start, start + tokens, dtype=np.float32)
    action = Action("two words", np.zeros(1, np.int32), np.zeros(tokens, np.int32), logprobs, True)
    return SampledTurn(agent, action, reward, number)


def played():
    """Two episodes, the first cut; between them one that failed, and a scripted agent's turn."""
    first = (
        turn("a_0", 2),
        turn("b_0", 3, start=10),
        turn("a_0", 1, 1, start=20),
        turn("frozen_0", 1, 1, reward=0.125),
    )
    second = (turn("c_0", 2, start=40), turn("scripted_0", 0, reward=0.25), turn("a_0", 1, reward=1.0, start=50))
    return [
        Trajectory(0, 7, first, False, True, infos={"success": 0.0}),
        Trajectory(0, 7, first, False, False, failure="broken"),
        Trajectory(0, 8, second, True, False),
    ]


@pytest.mark.parametrize(
    ("knobs", "decisions", "values"),
    [
        ({}, [1] * 5, [1] * 5),
        ({"level": "token"}, [2, 3, 1, 2, 1], [2, 3, 1, 2, 1]),
        ({"level": "token", "credit": "round"}, [2, 3, 1, 2, 1], [1, 0, 1, 1, 0]),
        ({"baseline": "group", "centring": "none"}, [1] * 5, [0] * 5),
    ],
)
def test_sizes_and_places_of_a_batch(knobs, decisions, values):
    batch = build_batch(played(), POLICIES, LearnerSettings(**knobs))
    assert batch.agents == ("a_0", "b_0", "c_0")
    assert batch.policies == ("a", "pair")
    assert batch.agent.tolist() == [0, 1, 0, 2, 0]
    assert batch.policy.tolist() == [0, 1, 0, 1, 0]
    assert batch.episode.tolist() == [0, 0, 0, 2, 2]
    assert batch.turn.tolist() == [0, 1, 2, 0, 2]
    assert batch.round.tolist() == [0, 0, 1, 0, 0]
    assert batch.joint.tolist() == [0, 0, 1, 2, 2]
    assert batch.group.tolist() == [7] * 3 + [8] * 2
    assert batch.branch.tolist() == [-1] * 5
    assert batch.terminated.tolist() == [False] * 3 + [True] * 2
    assert batch.positive.tolist() == [False] * 3 + [True] * 2
    assert batch.reward.tolist() == [0, 0, 0.125, 0.25, 1]
    assert batch.team_return.tolist() == [0.125] * 3 + [1.25] * 2
    assert batch.lengths.tolist() == [2, 3, 1, 2, 1]
    assert batch.num_decisions.tolist() == decisions
    assert batch.num_values.tolist() == values
    assert batch.recorded.tolist() == batch.old.tolist() == [0, 1, 10, 11, 12, 20, 40, 41, 50]
    assert batch.preceding.tolist() == batch.weight.tolist() == [1] * 5
    assert not batch.shaping.any()
    assert not batch.bootstrap.any()
    for name in ("reference", "advantages", "credit", "values", "returns"):
        assert np.isnan(getattr(batch, name)).all()
    assert batch.words.tolist() == [1] * 5


def test_words_are_counted_where_log_probs_are_divided_by_them():
    assert build_batch(played(), POLICIES, LearnerSettings(normalisation="word")).words.tolist() == [2] * 5


def test_each_field_is_of_one_kind():
    flat = [name for names in FLAT.values() for name in names]
    assert sorted(["agents", "policies", "actions", *FLAT, *flat, *PER_ACTION]) == sorted(Batch._fields)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 4), max_size=8), st.sampled_from(["chain", "round"]))
def test_a_selection_has_all_entries_of_its_actions(index, credit):
    batch = build_batch(played(), POLICIES, LearnerSettings(level="token", credit=credit))
    filled = {
        name: np.arange(len(getattr(batch, name)), dtype=getattr(batch, name).dtype)
        for names in FLAT.values()
        for name in names
    }
    batch = batch._replace(**filled)
    taken = batch.take(np.array(index, np.int64))
    assert [id(action) for action in taken.actions] == [id(batch.actions[i]) for i in index]
    for name in PER_ACTION:
        assert getattr(taken, name).tolist() == [getattr(batch, name).tolist()[i] for i in index]
    for offsets, names in FLAT.items():
        cuts = getattr(batch, offsets).tolist()
        wanted = [place for i in index for place in range(cuts[i], cuts[i + 1])]
        assert np.diff(getattr(taken, offsets)).tolist() == [cuts[i + 1] - cuts[i] for i in index]
        for name in names:
            assert getattr(taken, name).tolist() == wanted
            assert getattr(taken, name).dtype == getattr(batch, name).dtype
    assert batch.tokens_of(np.array(index, np.int64)).tolist() == taken.recorded.tolist()


def test_the_actions_of_a_policy_are_those_of_all_its_agents():
    batch = build_batch(played(), POLICIES, LearnerSettings())
    assert batch.of("pair").agent.tolist() == [1, 2]
    assert batch.of("a").turn.tolist() == [0, 2, 2]
