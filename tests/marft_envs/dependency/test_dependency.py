from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marft_envs.dependency import (
    DependencyError,
    Roster,
    as_dependency,
    by_state,
    chain,
    from_dict,
    full,
    independent,
    matrix,
    routed,
    schedule,
)
from tests.helpers.toy_games import play_out, toy_game

TRIO = Roster(("a_0", "b_0", "c_0"), frozenset({"c_0"}))


def test_presets_give_their_edges():
    assert independent().plan(TRIO).edges == ()
    assert chain().plan(TRIO).edges == (("a_0", "b_0"), ("b_0", "c_0"))
    assert full().plan(TRIO).edges == (("a_0", "b_0"), ("a_0", "c_0"), ("b_0", "c_0"))
    assert matrix(np.triu(np.ones((3, 3), dtype=int), 1)).plan(TRIO) == full().plan(TRIO)
    assert chain(active=("a_0", "c_0")).plan(TRIO).edges == (("a_0", "c_0"),)


def test_rows_are_seen_and_columns_see():
    plan = matrix([[0, 0, 0], [1, 0, 1], [0, 0, 0]]).plan(TRIO)
    assert plan.order == ("b_0", "a_0", "c_0")
    assert plan.sees["a_0"] == {"b_0"}
    assert plan.layers == (("b_0",), ("a_0", "c_0"))


def test_labels_name_rows_in_another_order():
    labelled = matrix([[0, 1, 1], [0, 0, 0], [0, 0, 0]], agents=("b_0", "a_0", "c_0"))
    assert labelled.plan(TRIO).edges == (("b_0", "a_0"), ("b_0", "c_0"))


def test_ties_go_by_team_order():
    assert independent().plan(TRIO).order == TRIO.agents
    last_first = matrix([[0, 0, 0], [0, 0, 0], [1, 0, 0]])
    assert last_first.plan(TRIO).order == ("b_0", "c_0", "a_0")


def test_delayed_edges_are_no_edges_of_the_round():
    plan = chain(delayed=[[0, 0, 0], [1, 0, 0], [0, 0, 0]]).plan(TRIO)
    assert plan.order == TRIO.agents
    assert plan.later["a_0"] == {"b_0"}
    assert not plan.later["b_0"]
    assert chain(delayed="all").plan(TRIO).later["b_0"] == {"a_0", "c_0"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: matrix([[0, 1], [0, 0]]), "D is 2x2 but has 3 agents"),
        (lambda: matrix([[0, 1, 0], [0, 0, 1], [1, 0, 0]]), "a_0 -> b_0 -> c_0 -> a_0"),
        (lambda: matrix([[0, 1, 0], [0, 0]]), "square"),
        (lambda: matrix([[0, 2, 0], [0, 0, 1], [0, 0, 0]]), "zeros and ones: row 0"),
        (lambda: matrix([[1, 0, 0], [0, 0, 1], [0, 0, 0]]), "no agent sees itself"),
        (lambda: matrix([]), "empty"),
        (lambda: matrix(7), "rows of zeros and ones"),
        (lambda: matrix([[0, 1, 0], [0, 0, 1], [0, 0, 0]], agents=("a_0", "b_0", "d_0")), "agent 'd_0'"),
        (lambda: matrix([[0, 1, 0], [0, 0, 1], [0, 0, 0]], agents=("a_0", "b_0", "b_0")), "twice"),
        (lambda: chain(active=("a_0", "x_0")), "unknown agent 'x_0'"),
        (lambda: chain(active="a_0"), "list of agent names"),
        (lambda: chain(delayed="some"), "'all'"),
        (lambda: matrix([[0, 0, 0], [1, 0, 0], [0, 1, 0]]), "what a_0 and b_0 says reaches no agent"),
        (lambda: matrix([[0, 0, 1], [0, 0, 0], [0, 0, 0]]), "what b_0 says reaches no agent"),
        (lambda: full(active=("a_0", "b_0")), "no agent that answers ever acts"),
        (lambda: independent(active=()), "nobody acts"),
        (lambda: independent(active=("a_0",)), "no agent that answers ever acts"),
        (lambda: schedule([]), "at least one step"),
        (lambda: schedule([chain()], after="stop"), "'repeat' or 'cycle'"),
        (lambda: routed(by="x_0"), "unknown agent"),
        (lambda: routed(by="c_0"), "no agent that answers can be routed to"),
        (lambda: routed(by="a_0", max_active=0), "max_active: found 0, wanted a whole number of at least 1"),
        (lambda: routed(by="a_0", max_active="2"), "max_active: found '2'"),
        (lambda: routed(by="a_0", max_edges=1.5), "max_edges: found 1.5"),
        (lambda: routed(by="a_0", broadcast="no"), "broadcast: found 'no', wanted true or false"),
        (lambda: routed(by="a_0", default="c_0"), "expected a list of agent names, got 'c_0'"),
        (lambda: chain(active=[["a_0"]]), "expected a list of agent names"),
        (lambda: chain(active=5), "expected a list of agent names, got 5"),
        (lambda: schedule("full"), "steps: expected a list of dependencies"),
        (lambda: schedule(5), "steps: expected a list of dependencies"),
        (lambda: by_state(None), "expected a list of rules or a function"),
        (lambda: by_state(lambda round, turns: 3), "rule's answer for round 0: expected a Dependency"),
        (lambda: routed(by="a_0", max_edges=0), "default route is not within the limits"),
        (lambda: routed(by="a_0", default=("b_0",)), "default route"),
        (lambda: by_state(lambda round, turns: matrix([[0]])), "D is 1x1"),
    ],
)  # fmt: skip
def test_what_cannot_be_played_is_refused(make, message):
    with pytest.raises(DependencyError, match=message.replace("(", "\\(")):
        make().check(TRIO)


def test_a_backward_edge_counts_only_with_a_second_round():
    back = matrix([[0, 0, 1], [0, 0, 0], [0, 0, 0]], delayed=[[0, 0, 0], [1, 0, 0], [0, 0, 0]])
    back.check(TRIO, horizon=2)
    with pytest.raises(DependencyError, match="b_0"):
        back.check(TRIO, horizon=1)


def test_schedules_follow_the_round():
    repeat, cycle = schedule([chain(), full()]), schedule([chain(), full()], after="cycle")
    for round, (one, other) in enumerate([(chain, chain), (full, full), (full, chain), (full, full)]):
        assert repeat.plan(TRIO, round) == one().plan(TRIO)
        assert cycle.plan(TRIO, round) == other().plan(TRIO)
    talk = schedule([chain(active=("a_0", "b_0"), delayed="all"), chain(active=("c_0",))])
    talk.check(TRIO, horizon=2)
    with pytest.raises(DependencyError, match="ever acts"):
        talk.check(TRIO, horizon=1)
    schedule([independent(), independent()]).check(TRIO, 2)
    schedule([by_state(lambda round, turns: chain()), full()]).check(TRIO, 2)


def test_a_schedule_checks_the_fixed_steps_beside_others():
    misspelt = schedule([by_state(lambda round, turns: chain()), chain(active=("d_0",))])
    misspelt.check(TRIO, 1)
    with pytest.raises(DependencyError, match="active: unknown agent 'd_0'"):
        misspelt.check(TRIO, 2)


def test_json_round_trip():
    rows = [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    for dependency in (
        independent(),
        chain(active=("a_0", "c_0")),
        full(delayed="all"),
        matrix(rows, agents=("a_0", "b_0", "c_0"), delayed=rows),
        schedule([chain(), matrix(rows)], after="cycle"),
        routed(by="a_0", max_active=2, max_edges=1, default=("b_0", "c_0"), broadcast=False, reports=False),
    ):
        assert from_dict(json.loads(json.dumps(dependency.to_dict()))) == dependency
    assert as_dependency("full") == full()
    with pytest.raises(DependencyError, match="code"):
        by_state(lambda round, turns: chain()).to_dict()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("chian", "did you mean chain"),
        ({"kind": "matrix"}, "needs the key 'rows'"),
        ({"kind": "chain", "rows": []}, "unknown key 'rows'"),
        ({"kind": "schedule", "steps": ["full", "ful"]}, r"steps\[1\].kind: found 'ful'"),
        ({"kind": "routed", "by": "a_0", "most": 1}, "unknown key 'most'"),
        ({}, "found None"),
        (3, "got int"),
    ],
)
def test_broken_json_is_refused(value, message):
    with pytest.raises(DependencyError, match=message):
        as_dependency(value)


@st.composite
def rosters_and_rows(draw):
    """A random matrix, with or without cycles."""
    count = draw(st.integers(1, 7))
    bits = draw(st.lists(st.booleans(), min_size=count * count, max_size=count * count))
    rows = [[int(bits[i * count + j] and i != j) for j in range(count)] for i in range(count)]
    if draw(st.booleans()):  # make it acyclic along a random order
        place = draw(st.permutations(range(count)))
        rows = [[rows[i][j] * (place[i] < place[j]) for j in range(count)] for i in range(count)]
    agents = tuple(f"agent_{place}" for place in range(count))
    return Roster(agents, frozenset(agents)), rows


def _has_cycle(rows: list[list[int]]) -> bool:
    power = adjacency = np.array(rows)
    for _ in rows:
        if np.trace(power):
            return True
        power = (power @ adjacency > 0).astype(int)
    return False


@settings(deadline=None, max_examples=300)
@given(rosters_and_rows())
def test_order_is_topological_and_stable_and_layers_are_longest_paths(drawn):
    roster, rows = drawn
    if _has_cycle(rows):
        with pytest.raises(DependencyError, match=r"agent_\d -> .*agent_\d"):
            matrix(rows).plan(roster)
        return
    plan = matrix(rows).plan(roster)
    place = {agent: position for position, agent in enumerate(plan.order)}
    index = {agent: position for position, agent in enumerate(roster.agents)}
    assert sorted(plan.order) == sorted(roster.agents)
    for i, j in plan.edges:
        assert rows[index[i]][index[j]] == 1
        assert place[i] < place[j]
        assert plan.layer_of[i] < plan.layer_of[j]
    assert len(plan.edges) == sum(map(sum, rows))
    for agent, layer in plan.layer_of.items():
        assert layer == max((plan.layer_of[seen] + 1 for seen in plan.sees[agent]), default=0)
    for position, agent in enumerate(plan.order):  # the first in team order of those that could go
        ready = [other for other in plan.order[position:] if plan.sees[other] <= set(plan.order[:position])]
        assert agent == min(ready, key=index.__getitem__)
    assert [agent for layer in plan.layers for agent in layer] == sorted(
        plan.order, key=lambda agent: (plan.layer_of[agent], place[agent])
    )


def test_a_rule_sees_earlier_rounds_only():
    seen = []

    def rule(round, turns):
        seen.append((round, [turn.action for turn in turns]))
        return chain() if round else full()

    game = toy_game("a_0", "b_0", "c_0", dependency=by_state(rule), horizon=2)
    game.reset(seed=0)
    play_out(game, lambda agent: agent)
    assert seen == [(0, []), (0, []), (1, ["a_0", "b_0", "c_0"])]
    assert game.plans[1].edges == (("a_0", "b_0"), ("b_0", "c_0"))
