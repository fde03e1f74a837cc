"""Teams for tools: who owns what, who is told what, and that the others cannot."""

from __future__ import annotations

from itertools import combinations

import pytest

from marft_envs.tasks.tools.calls import read_calls
from marft_envs.tasks.tools.tool_access import BUILT_IN
from marft_envs.tasks.tools.turn_taking import Handoff, read_hand_off
from marft_envs.teams.team import PRESETS, Team
from tests.marft_envs.tasks.worlds.world_games import KINDS, NAMES, new_game

LARGER = PRESETS[1:]
SIZES = {"solo": 1, "duo": 2, "trio": 3, "quartet": 4, "sextet": 6, "octet": 8, "dozen": 12, "routed": 5}


def owned(name, world):
    game = new_game(name, world)
    return game.unwrapped.tasks.surface.owned[world]


@pytest.mark.parametrize("name", LARGER)
@pytest.mark.parametrize("world", NAMES)
def test_every_tool_has_one_owner(name, world):
    """Specialists: no world tool is owned twice, and none by nobody."""
    by_agent = {agent: set(tools) - set(BUILT_IN) for agent, tools in owned(name, world).items()}
    for one, other in combinations(by_agent.values(), 2):
        assert not one & other
    assert set.union(*by_agent.values()) == set(KINDS[world].tools())


@pytest.mark.parametrize("world", NAMES)
def test_solo_owns_everything(world):
    assert set(owned("solo", world)["agent_0"]) == {*KINDS[world].tools(), "finish"}


@pytest.mark.parametrize("name", SIZES)
def test_presets_for_tools_are_playable(name):
    team = Team.preset(name, family="tools")
    team.check(20)
    assert len(team.profiles) == SIZES[name]
    assert isinstance(team.dependency, Handoff) == (name not in ("solo", "routed"))
    for profile in team.profiles:
        assert profile.examples
        assert len(profile.system_prompt) < 800
        assert profile.answers == ("finish" in profile.tools or "*" in profile.tools)


@pytest.mark.parametrize("name", SIZES)
def test_a_worked_example_makes_calls_that_its_agent_owns(name):
    """Each call of an example can be read and fits the schema; each hand-off names a teammate."""
    team = Team.preset(name, family="tools")
    tools = {tool: entry for kind in KINDS.values() for tool, entry in kind.tools().items()}
    for profile in team.profiles:
        for given, said in profile.examples:
            calls = read_calls(said)
            assert calls or name == "routed"
            for call in calls:
                if call.name in tools:
                    assert "*" in profile.tools or call.name in profile.tools
                    tools[call.name].read_arguments(call)
                else:
                    assert call.name in BUILT_IN
                    assert call.name != "hand_off" or read_hand_off(said, profile.name, team.roster).to
            spoken = [(author, text) for author, text in given if author != "environment"]
            handed = [read_hand_off(text, author, team.roster).to == profile.name for author, text in spoken]
            assert all(handed) or name == "routed"


@pytest.mark.parametrize("name", LARGER)
@pytest.mark.parametrize("world", ["shop", "desk", "travel"])
def test_what_only_owners_are_told_is_seen_by_no_other(name, world):
    game = new_game(name, world)
    game.reset(seed=1)
    for agent, tools in owned(name, world).items():
        seen = game.observe(agent)
        for tool, text in KINDS[world].handbook.items():
            assert (text in seen) == (tool in tools), (agent, tool)
        for tool, entry in KINDS[world].tools().items():
            assert (entry.signature in seen) == (tool in tools), (agent, tool)


def test_a_call_of_another_agents_tool_is_refused_and_changes_nothing():
    for name in LARGER[: LARGER.index("routed")]:  # one turn is a round
        game = new_game(name, "shop", "test")
        game.reset(seed=0, options={"index": 0})
        first, start = game.agent_selection, game.unwrapped.session.state
        for tool in set(KINDS["shop"].tools()) - set(owned(name, "shop")[first]):
            game.reset(seed=0, options={"index": 0})
            example = dict.fromkeys(KINDS["shop"].tools()[tool].parameters["properties"], "x")
            game.step(f"{tool}({', '.join(f'{key}={value!r}' for key, value in example.items())})")
            event = game.unwrapped.episode().outcomes[0].events[0]
            assert event["status"] == "unknown"
            assert "no such tool" in game.observe(first)
            assert game.unwrapped.session.state == start


def test_results_are_seen_by_their_caller_alone():
    game = new_game("duo", "lookup", "test")
    game.reset(seed=0, options={"index": 0})
    task = game.unwrapped.task
    ware = task.reference[0].arguments["ware"]
    price = task.state["prices"][ware]["price"]
    game.step(f'read_price(ware="{ware}")')
    assert f"Result of read_price: {price}" in game.observe("reader_0")
    assert "Result of read_price" not in game.observe("writer_0").replace("Result of read_price: 34", "")
    game.step('hand_off(to="writer_0", message="secret")')
    assert "secret" in game.observe("writer_0")
    assert f"Result of read_price: {price}" not in game.observe("writer_0")
