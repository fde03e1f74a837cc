"""Visibility of actions by agent, against an oracle that knows only matrices: row i, column j = 1 where j sees i."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from marft_envs import FlexMG, Team
from marft_envs.dependency import chain, full, independent, matrix, schedule
from tests.helpers.toy_games import play, toy_game, toy_tasks

N = 4
AGENTS = tuple(f"agent_{place}" for place in range(N))
CHAIN, FULL, NONE = (
    np.eye(N, k=1, dtype=int),
    np.triu(np.ones((N, N), dtype=int), 1),
    np.zeros((N, N), dtype=int),
)
DIAMOND = np.array([[0, 1, 1, 0], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0]])
BACK = np.array([[0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0]])
ALL = 1 - np.eye(N, dtype=int)

PRESETS = {  # the dependency, D of round 0, 1, 2, and E
    "independent": (independent(), [NONE] * 3, NONE),
    "chain": (chain(), [CHAIN] * 3, NONE),
    "full": (full(), [FULL] * 3, NONE),
    "matrix": (matrix(DIAMOND), [DIAMOND] * 3, NONE),
    "full, delayed back": (full(delayed=BACK), [FULL] * 3, BACK),
    "chain, delayed all": (chain(delayed="all"), [CHAIN] * 3, ALL),
    "independent, delayed all": (independent(delayed="all"), [NONE] * 3, ALL),
    "schedule": (schedule([chain(), matrix(DIAMOND), full()]), [CHAIN, DIAMOND, FULL], NONE),
    "schedule, cycle": (schedule([full(), chain()], after="cycle"), [FULL, CHAIN, FULL], NONE),
}
HEAD, TAIL = "head<{}.{}>", "tail<{}.{}>"


def say(round: int, place: int) -> str:
    return f"{HEAD.format(round, place)} {'.' * 40}\n\n{TAIL.format(round, place)}"


def expected(
    form: str,
    edges: list[np.ndarray],
    delayed: np.ndarray,
    said: list[tuple[int, int]],
    viewer: int,
    now: int,
) -> set[str]:
    """Which markers the viewer sees."""
    allowed = [(s, i) for s, i in said if i != viewer and (edges[s][i, viewer] or (s < now and delayed[i, viewer]))]
    if form == "last":
        allowed = [(s, i) for s, i in allowed if s == max(s for s, other in allowed if other == i)]
    if form == "none":
        allowed = []
    own = [(s, i) for s, i in said if i == viewer]
    heads = own + (allowed if form in ("full", "last") else [])
    return {HEAD.format(*place) for place in heads} | {TAIL.format(*place) for place in own + allowed}


@pytest.mark.parametrize("form", ["full", "last", "record", "summary", "tail:20", "none"])
@pytest.mark.parametrize("horizon", [1, 2, 3])
@pytest.mark.parametrize("preset", PRESETS)
def test_a_marker_is_seen_exactly_where_d_allows(preset: str, horizon: int, form: str):
    dependency, edges, delayed = PRESETS[preset]
    game = toy_game(*AGENTS, dependency=dependency, horizon=horizon, communication=form)
    game.reset(seed=0)
    said: list[tuple[int, int]] = []

    def act(agent: str) -> str:
        said.append((game.infos[agent]["round"], AGENTS.index(agent)))
        return say(*said[-1])

    def check() -> None:
        now = game.infos[AGENTS[0]]["round"]
        for place, viewer in enumerate(AGENTS):
            seen = game.observe(viewer)
            markers = {form.format(*one) for form, one in itertools.product((HEAD, TAIL), said)}
            wanted = expected(form, edges, delayed, said, place, now)
            assert {marker for marker in markers if marker in seen} == wanted, (viewer, now)
            in_messages = "".join(message["content"] for message in seen.messages)
            assert {marker for marker in markers if marker in in_messages} == wanted
            for message in seen.messages:  # each under its author
                for s, i in said:
                    if TAIL.format(s, i) in message["content"]:
                        assert message["name"] == AGENTS[i]
                        assert message["role"] == ("assistant" if i == place else "user")
            if form == "full":
                assert game.infos[viewer]["visible"] == len({w for w in wanted if w[0] == "h"}) - len(
                    [one for one in said if one[1] == place]
                )

    for _ in play(game, act):
        check()
    check()
    assert len(said) == N * horizon


def test_one_edge_may_carry_another_form():
    game = toy_game(*AGENTS, dependency=full(), communication={"default": "none", "agent_0->agent_3": "tail:1"})
    game.reset(seed=0)
    for _ in play(game, lambda agent: f"({agent})"):
        pass
    said = [message for message in game.observe("agent_3").messages if message["role"] == "user"]
    assert [message["content"] for message in said[1:]] == [")"]


def test_an_observation_is_complete_once_its_layer_is_reached():
    """Agents of one layer may generate at the same time: others acting before them changes nothing."""
    game = toy_game(*AGENTS, dependency=matrix(DIAMOND), horizon=2)
    game.reset(seed=0)
    plan = game.plans[0]
    early: dict[str, str] = {}
    for agent in play(game, lambda agent: f"I am {agent}"):
        if game.infos[agent]["round"] == 0:
            layer = plan.layers[plan.layer_of[agent]]
            if agent == layer[0]:
                early |= {other: str(game.observe(other)) for other in layer}
            assert game.observe(agent) == early[agent]


def test_a_conversation_grows_at_its_end():
    game = toy_game(*AGENTS, dependency=full(delayed=BACK), horizon=3)
    game.reset(seed=0)
    before: dict[str, tuple[dict[str, str], ...]] = {}
    for agent in play(game, lambda agent: f"I am {agent}"):
        messages = game.observe(agent).messages
        assert messages[: len(before.get(agent, ()))] == before.get(agent, ())
        before[agent] = messages


def test_profile_examples_and_private_come_first_and_gold_never():
    team = Team.preset("duo")
    game = FlexMG(toy_tasks(), team, horizon=2)
    game.reset(seed=0, options={"task_id": "add-5"})
    messages = game.observe("actor_0").messages
    assert [message["role"] for message in messages] == ["system", "user", "user", "assistant", "user"]
    assert messages[0]["content"] == team.profiles[1].system_prompt
    assert messages[-1] == {"role": "user", "content": "What is 5 + 1?", "name": "environment"}
    assert "add-5" not in game.observe("actor_0")
    assert "6" not in str(game.state())


@pytest.mark.parametrize("feedback", ["none", "verdict"])
def test_the_verdict_is_shown_only_when_asked_for(feedback: str):
    game = toy_game("a_0", "b_0", horizon=2, feedback=feedback)
    game.reset(seed=0)
    for _ in range(2):
        game.step("\\boxed{99}")
    assert game.infos["a_0"]["round"] == 1
    for agent in ("a_0", "b_0"):
        assert ("The answer 99 is wrong." in game.observe(agent)) == (feedback == "verdict")
        assert game.observe(agent).messages[-1]["content"].endswith("Round 2 of 2.")
