from __future__ import annotations

import contextlib
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marft_envs.dependency import DependencyError, Roster, from_dict, routed
from marft_envs.dependency.routed import RouteError, read_route
from tests.helpers.toy_games import play_out, toy_game, toy_team

TEAM = ("orchestrator_0", "solver_0", "solver_1", "actor_0")
CHAIN = ("solver_1", "solver_0")
ROSTER = Roster(TEAM, frozenset({"actor_0"}))


def game_with(horizon: int = 1, **limits):
    return toy_game(*TEAM, dependency=routed(by="orchestrator_0", **limits), horizon=horizon)


def play_route(game, *routes: str):
    """Play each round with a route."""
    said = iter(routes)
    game.reset(seed=0)
    return play_out(game, lambda agent: next(said) if agent == "orchestrator_0" else f"I am {agent}")


def test_the_route_decides_who_acts_and_who_sees_whom():
    route = {"act": ["solver_1", "solver_0", "actor_0"], "see": {"actor_0": ["solver_1"]}}
    game = play_route(game_with(), f"Let us go. {json.dumps(route)}")
    turns = game.episode().turns
    assert [turn.agent for turn in turns] == ["orchestrator_0", "solver_0", "solver_1", "actor_0"]
    assert "I am solver_1" in turns[3].observation
    assert "I am solver_0" not in turns[3].observation
    assert "Let us go" in turns[3].observation  # broadcast
    assert [turn.layer for turn in turns] == [0, 1, 1, 2]
    assert game.infos["actor_0"]["invalid"] == 1  # only its own answer: there was none


def test_without_broadcast_only_the_named_see_the_orchestrator():
    route = {"act": ["solver_0", "actor_0"], "see": {"actor_0": ["solver_0", "orchestrator_0"]}}
    game = play_route(game_with(broadcast=False), json.dumps(route))
    solver, actor = game.episode().turns[1:]
    assert '"act"' not in solver.observation
    assert '"act"' in actor.observation


def test_a_line_routes_a_full_chain():
    game = play_route(game_with(), "thinking\n -> solver_0 , actor_0 ")
    assert [turn.agent for turn in game.episode().turns] == ["orchestrator_0", "solver_0", "actor_0"]
    assert game.episode().turns[2].visible == ((0, "orchestrator_0"), (0, "solver_0"))


@pytest.mark.parametrize(
    "text",
    [
        "so \\boxed{}\n-> solver_1, actor_0",
        "\\frac{1}{2}" * 340 + '{"act": ["solver_1", "actor_0"]}',
        '{ "act": ["actor_0"]} no, {\n"act": ["solver_1", "actor_0"]}',
    ],
)
def test_a_route_is_found_among_the_braces_of_mathematics(text):
    assert read_route(text).act == ("solver_1", "actor_0")


def test_the_orchestrator_gets_reports_in_the_next_round():
    game = play_route(game_with(horizon=2), "-> solver_0, actor_0", "-> solver_1, actor_0")
    second = game.episode().turns[3]
    assert second.agent == "orchestrator_0"
    assert second.visible == ((0, "solver_0"), (0, "actor_0"))
    assert [turn.agent for turn in game.episode().turns[4:]] == ["solver_1", "actor_0"]
    silent = play_route(game_with(horizon=2, reports=False), "-> actor_0", "-> actor_0")
    assert silent.episode().turns[2].visible == ()


@pytest.mark.parametrize(
    ("route", "fault"),
    [
        ("", "no route found"),
        ("{not json}", "no route found"),
        ("{}", "no route found"),
        ('{"see": {}}', "'act' must be a list"),
        ('{"act": []}', "nobody in [] answers"),
        ('{"act": "actor_0"}', "list of agent names"),
        ('{"act": ["actor_0"], "why": 1}', "unknown key 'why'"),
        ('{"act": ["nobody_0", "actor_0"]}', "'nobody_0' cannot be routed to"),
        ('{"act": ["orchestrator_0", "actor_0"]}', "cannot be routed to"),
        ('{"act": ["actor_0", "actor_0"]}', "twice"),
        ('{"act": ["solver_0"]}', "answers"),
        ('{"act": ["solver_0", "solver_1", "actor_0"]}', "at most 2 may"),
        ('{"act": ["solver_0", "actor_0"], "see": {"actor_0": ["solver_0"], "solver_0": ["actor_0"]}}', "cy"),
        ('{"act": ["actor_0"], "see": {"actor_0": ["solver_0"]}}', "only agents that act"),
        ('{"act": ["actor_0"], "see": {"actor_0": "solver_0"}}', "must map"),
        ('{"act": ["actor_0"], "see": {"actor_0": ["actor_0"]}}', "cycle"),
        ('{"act": ["actor_0"], "see": []}', "must map"),
        ("-> solver_0", "answers"),
        ("-> ,", "cannot be routed to"),
        ("[" * 5000, "no route found"),
        ('{"act":' * 3000, "no route found"),
    ],
)  # fmt: skip
def test_a_bad_route_takes_the_default_one_and_counts_as_invalid(route, fault):
    game = play_route(game_with(max_active=2), route)
    turns = game.episode().turns
    assert [turn.agent for turn in turns] == ["orchestrator_0", "solver_1", "actor_0"]
    assert fault in turns[0].fault
    assert turns[2].visible == ((0, "orchestrator_0"), (0, "solver_1"))
    assert game.infos["actor_0"]["invalid"] == 2


def test_edges_are_limited():
    route = '{"act": ["solver_0", "solver_1", "actor_0"], "see": {"actor_0": ["solver_0", "solver_1"]}}'
    assert not play_route(game_with(max_edges=2), route).episode().turns[0].fault
    limited = game_with(max_edges=1, default=("actor_0",))
    assert "at most 1" in play_route(limited, route).episode().turns[0].fault


def test_the_last_object_outside_others_counts():
    text = 'First {"act": ["a_0"]}, rather {"act": ["b_0", "c_0"], "see": {"c_0": ["b_0"]}} with \\frac{1}{2}'
    assert read_route(text).act == ("b_0", "c_0")
    assert read_route("-> a_0\n-> b_0").act == ("b_0",)


@pytest.mark.parametrize(
    "call", ['{"name": "f", "arguments": {"act": ["a_0"]}}', '<tool_call>{"name": "f", "arguments": {}}</tool_call>']
)
@pytest.mark.parametrize("route", ["-> b_0", '{"act": ["b_0"]}'])
def test_tool_calls_beside_the_route_are_no_route(call, route):
    assert read_route(f"{call}\n{route}").act == read_route(f"{route}\n{call}").act == ("b_0",)


@settings(deadline=None)
@given(st.text() | st.text(alphabet='{}[]",:->act see_0\n'))
def test_any_text_gives_a_plan(text: str):
    dependency = routed(by="orchestrator_0", answer_by="actor_0" if len(text) % 2 else None)
    said = type("Said", (), {"agent": "orchestrator_0", "round": 0, "action": text})()
    plan = dependency.plan(toy_team(*TEAM).roster, 0, [said])
    assert plan.order[0] == "orchestrator_0"
    assert "actor_0" in plan.order
    assert not plan.open


def asked(route: str, **limits):
    """Return the turns of a round whose answering agent acts last, whatever the route."""
    return play_route(game_with(answer_by="actor_0", **limits), route).episode().turns


@pytest.mark.parametrize(
    ("route", "acting", "layers"),
    [
        ("-> solver_1", ["solver_1", "actor_0"], [0, 1, 2]),
        ("-> solver_1, solver_0", ["solver_0", "solver_1", "actor_0"], [0, 1, 1, 2]),
        ("-> solver_1, actor_0", ["solver_1", "actor_0"], [0, 1, 2]),
        ("-> actor_0", ["actor_0"], [0, 1]),
        ('{"act": []}', ["actor_0"], [0, 1]),
        ('{"act": ["solver_0", "solver_1"], "see": {"solver_0": ["solver_1"]}}', [*CHAIN, "actor_0"], [0, 1, 2, 3]),
        ("solver_1", ["solver_1", "actor_0"], [0, 1, 2]),
        (" solver_1, solver_0\n", ["solver_0", "solver_1", "actor_0"], [0, 1, 1, 2]),
        ("-> actor", ["actor_0"], [0, 1]),
    ],
)  # fmt: skip
def test_an_answering_agent_of_its_own_acts_last_and_sees_all_who_were_asked(route, acting, layers):
    turns = asked(route)
    assert [turn.agent for turn in turns[1:]] == acting
    assert not turns[0].fault
    assert [turn.layer for turn in turns] == layers
    assert turns[-1].visible == tuple((0, agent) for agent in ["orchestrator_0", *acting[:-1]])


@pytest.mark.parametrize(
    ("route", "fault"),
    [
        ("I do not know", "no route found"),
        ("solver", "no route found"),  # which one?
        ("-> boss_0", "cannot be routed to"),
        ("-> solver_0, solver_1", "at most 1 may"),
        ('{"act": ["solver_0"], "see": {"solver_0": ["actor_0"]}}', "cycle"),
    ],
)
def test_who_names_nobody_gets_the_default_route(route, fault):
    turns = asked(route, max_active=1, default=["solver_1"])
    assert fault in turns[0].fault
    assert [turn.agent for turn in turns[1:]] == ["solver_1", "actor_0"]


def test_without_a_default_all_act_at_the_same_time_before_the_answer():
    assert [turn.layer for turn in asked("")] == [0, 1, 1, 2]
    assert [turn.agent for turn in asked("", max_active=1)[1:]] == ["solver_1", "actor_0"]


def test_the_limits_leave_the_answering_agent_out():
    assert not asked("-> solver_0", max_active=1, max_edges=0)[0].fault


@pytest.mark.parametrize("name", ["boss_0", "orchestrator_0", "solver_0"])
def test_an_answering_agent_that_does_not_answer_is_refused_at_once(name):
    with pytest.raises(DependencyError, match=f"routed.answer_by: found '{name}', wanted .* answers .actor_0"):
        game_with(answer_by=name)


def test_the_answering_agent_is_part_of_the_json_form():
    made = routed(by="orchestrator_0", answer_by="actor_0", default=["solver_0"])
    assert from_dict(json.loads(json.dumps(made.to_dict()))) == made


def test_an_orchestrator_late_in_the_team_acts_first_and_once_even_if_nobody_sees_it():
    """The route decides who acts, so nobody shares a layer with the orchestrator."""
    team = toy_game("solver_0", "boss_0", "actor_0", dependency=routed(by="boss_0", broadcast=False))
    team.reset(seed=0)
    turns = play_out(team, lambda agent: "-> solver_0, actor_0" if agent == "boss_0" else "6").episode().turns
    assert [(turn.agent, turn.layer) for turn in turns] == [("boss_0", 0), ("solver_0", 1), ("actor_0", 2)]


def test_reading_a_hostile_route_is_fast():
    start = time.process_time()
    for text in ("{" * 16384, '{"a":' * 4000, "-> " * 6000, "-> a" + " " * 16000 + "\n!"):
        with contextlib.suppress(RouteError):
            read_route(text)
    assert time.process_time() - start < 5  # quadratic work would take minutes
