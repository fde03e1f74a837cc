"""Hand-offs: who holds control, who sees what, and what a bad hand-off costs."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marft_envs.dependency import DependencyError, Handoff, Roster, as_dependency, from_dict, handoff
from marft_envs.dependency.drawing import dot, mermaid
from marft_envs.game.episode import Episode
from marft_envs.game.rewards import longest_exchange
from marft_envs.records.replay import replay
from marft_envs.testing import check_environment
from tests.helpers.toy_games import play, play_out, toy_game

TEAM = ("triage_0", "orders_0", "refunds_0")
ROSTER = Roster(TEAM, frozenset({"refunds_0"}))


def to(agent: str, message: str = "go on") -> str:
    call = {"name": "hand_off", "arguments": {"to": agent, "message": message}}
    return f"<tool_call>{json.dumps(call)}</tool_call>"


def play_all(*actions: str, horizon: int | None = None, **kwargs):
    game = toy_game(*TEAM, dependency=handoff(**kwargs), horizon=horizon or len(actions))
    game.reset(seed=0)
    said = iter(actions)
    return play_out(game, lambda agent: next(said))


def acted(game) -> list[str]:
    return [turn.agent for turn in game.episode().turns]


def test_only_the_holder_acts_and_passes_control():
    game = play_all("hm", to("refunds_0"), "hm", to("orders_0"), to("triage_0"), "end")
    assert acted(game) == ["triage_0", "triage_0", "refunds_0", "refunds_0", "orders_0", "triage_0"]
    assert not any(turn.fault for turn in game.episode().turns)


@pytest.mark.parametrize(
    "said",
    [
        to("orders_0"),
        '{"name": "hand_off", "arguments": {"to": "orders_0"}}',
        "I do not know orders.\nhand_off(to='orders_0', message='Ann, W-1')",
        '```json\n{"tool_calls": [{"function": {"name": "hand_off", "arguments": "{\\"to\\": \\"orders_0\\"}"}}]}\n```',
        to("orders_0") + to("refunds_0"),  # the first counts
        to("nobody_0") + to("orders_0"),
        '<tool_call>{"name": "look", "arguments": {}}</tool_call>' + to("orders_0"),
    ],
)
def test_any_form_of_call_hands_over(said: str):
    game = play_all(said, "x")
    assert acted(game) == ["triage_0", "orders_0"]
    assert not game.episode().turns[0].fault


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        (to("nobody_0"), """'to' is "nobody_0"; wanted one of "orders_0", "refunds_0\""""),
        (to("triage_0"), """'to' is "triage_0\""""),
        ("hand_off()", "'to' is missing"),
        ("hand_off(to='orders_0'", "cannot be read"),
        ("<tool_call>hand_off", "not closed"),
        ("hand_off(to='orders_0', why=1)", "unknown argument 'why'"),
        ("I should hand_off to orders_0", ""),
        ("<tool_call>", ""),
        ("", ""),
    ],
)
def test_a_bad_hand_off_keeps_control_and_is_a_fault(said: str, fault: str):
    game = play_all(said, "x")
    assert acted(game) == ["triage_0", "triage_0"]
    found = game.episode().turns[0].fault
    assert fault in found
    assert bool(found) == bool(fault)


def test_the_receiver_sees_the_action_that_handed_over_and_no_other():
    game = play_all("secret one", "mine. " + to("orders_0"), "secret two", to("refunds_0", "from orders"), "x")
    turns = game.episode().turns
    assert [turn.visible for turn in turns] == [(), (), ((1, "triage_0"),), ((1, "triage_0"),), ((3, "orders_0"),)]
    assert "mine. " in turns[2].observation
    assert "secret" not in turns[2].observation
    assert "from orders" in turns[4].observation
    for hidden in ("secret", "mine", "go on"):
        assert hidden not in turns[4].observation


def test_with_all_everybody_sees_all_of_earlier_rounds():
    game = play_all("one", to("orders_0"), "three", sees="all", horizon=3)
    turns = game.episode().turns
    assert turns[2].visible == ((0, "triage_0"), (1, "triage_0"))
    assert "three" not in game.observe("refunds_0")  # the game ended in that round


@pytest.mark.parametrize("sees", ["handoff", "all"])
@pytest.mark.parametrize("form", ["full", "last", "tail:12", "none"])
@settings(deadline=None, max_examples=40)
@given(passes=st.lists(st.sampled_from([None, *TEAM, "nobody_0"]), min_size=2, max_size=6))
def test_a_marker_is_seen_exactly_where_control_went(form: str, sees: str, passes: list[str | None]):
    """Against an oracle that only follows the list of passes."""
    game = toy_game(*TEAM, dependency=handoff(sees=sees), horizon=len(passes), communication=form)
    game.reset(seed=0)
    said: list[tuple[str, str]] = []  # holder, receiver
    holder, targets = TEAM[0], iter(passes)

    def act(agent: str) -> str:
        target = next(targets)
        valid = target in TEAM and target != agent
        said.append((agent, target if valid else ""))
        mark = f"head{len(said)} {to(target) if target else ''}"
        return f"{mark}\n tail{len(said):<8}"

    def check() -> None:
        now = game.infos[TEAM[0]]["round"]
        for viewer in TEAM:
            own = {place for place, (agent, _) in enumerate(said) if agent == viewer}
            allowed = [
                place
                for place, (agent, target) in enumerate(said)
                if agent != viewer and place < now and (sees == "all" or target == viewer)
            ]
            if form == "last":
                allowed = [max(p for p in allowed if said[p][0] == a) for a in {said[p][0] for p in allowed}]
            if form == "none":
                allowed = []
            shown = {place for place in range(len(said)) if f"tail{place + 1} " in game.observe(viewer)}
            assert shown == own | set(allowed)

    for agent in play(game, act):
        assert agent == holder
        check()
        if game.infos[agent]["round"] < len(passes):
            target = passes[len(said)]
            holder = target if target in TEAM and target != agent else holder
    check()


@settings(deadline=None)
@given(st.lists(st.text() | st.sampled_from([to(agent) for agent in TEAM]), min_size=2, max_size=5))
def test_any_text_gives_a_plan_and_replays(actions: list[str]):
    game = play_all(*actions)
    assert all(plan.order and len(plan.order) == 1 and not plan.open for plan in game.plans)
    record = Episode.from_json(game.episode().to_json())
    fresh = toy_game(*TEAM, dependency=handoff(), horizon=len(actions))
    assert replay(fresh, record) == []


def test_a_copy_in_mid_game_goes_on_alike():
    game = toy_game(*TEAM, dependency=handoff(), horizon=4)
    game.reset(seed=0)
    game.step(to("refunds_0"))
    for clone in (copy.deepcopy(game), pickle.loads(pickle.dumps(game))):
        assert clone.agent_selection == "refunds_0"
        clone.step(to("orders_0"))
        assert clone.agent_selection == "orders_0"
    assert game.agent_selection == "refunds_0"


def test_the_json_form_comes_back():
    for one in (handoff(), handoff(start="orders_0", sees="all")):
        assert from_dict(json.loads(json.dumps(one.to_dict()))) == one
    assert as_dependency("handoff") == Handoff()
    assert "chosen by its action" in mermaid(handoff(), ROSTER)
    assert "chosen by its action" in dot(handoff(), ROSTER)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: handoff(start="x_0").check(ROSTER, 3), "unknown agent; the team has triage_0"),
        (lambda: handoff().check(ROSTER, 1), "within 1 round"),
        (lambda: handoff().check(Roster(TEAM, frozenset()), 3), "nobody answers"),
        (lambda: handoff(sees="some"), "wanted 'handoff' or 'all'"),
        (lambda: handoff(start=3), "wanted the name of an agent"),
        (lambda: from_dict({"kind": "handoff", "by": "a_0"}), "unknown key 'by'"),
    ],
)
def test_what_cannot_be_played_is_refused(make, message: str):
    with pytest.raises(DependencyError, match=message):
        make()


@pytest.mark.parametrize("sees", ["handoff", "all"])
def test_it_passes_the_conformance_kit(sees: str):
    def make(**kwargs):
        return toy_game(*TEAM, dependency=handoff(sees=sees), horizon=3, **kwargs)

    report = check_environment(make, cycles=20)
    assert report.passed, str(report)


@pytest.mark.parametrize(
    ("passes", "loops"),
    [("", 0), ("ab", 1), ("ab ba", 2), ("ab ba ab", 3), ("ab bc cb bc ca", 3), ("ab ab", 1), ("ab bc ca ab", 1)],
)
def test_exchanges_are_counted(passes: str, loops: int):
    assert longest_exchange([(pair[0], pair[1]) for pair in passes.split()]) == loops
