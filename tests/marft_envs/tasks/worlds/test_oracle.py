"""Tests of scripted teams (the oracle solves everything, others nothing) and of the safety set's report."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import marft_envs
from marft_envs.tasks.tools.calls import Call
from marft_envs.tasks.tools.tasks import ToolTasks
from marft_envs.tasks.worlds import WORLDS, play, script
from tests.marft_envs.tasks.worlds.world_games import SAFE, SETS, SPLITS, as_calls, games, new_game, rows

HANDING_OVER = ("duo", "trio", "quartet", "sextet", "octet", "dozen")
TEAMS = ("solo", *HANDING_OVER)
# Larger teams differ in who owns a tool. All tasks of a world need the same tools, so they play its small splits.
PLAYED = [
    pytest.param(team, *world, marks=pytest.mark.long if team in ("quartet", "sextet", "octet") else ())
    for team in TEAMS
    for world in SETS
    if team == "solo" or world[1] != "train"
]


def outcomes(record):
    return [outcome for outcome in record.outcomes if outcome is not None]


def statuses(record):
    return {event["status"] for outcome in outcomes(record) for event in outcome.events if event["kind"] == "call"}


@pytest.mark.parametrize(("team", "world", "split"), PLAYED)
def test_the_oracle_solves_every_task(team, world, split):
    for game in games(team, world, split):
        record = play(game, script(game))
        assert record.success, record.task_id
        assert record.terminated
        assert sum(record.rewards) == record.rewards[-1] == 1.0
        assert statuses(record) == {"ok"}, record.task_id
        assert not any(outcome.detail["violation"] for outcome in outcomes(record))


@pytest.mark.parametrize(("world", "split"), SETS)
def test_who_only_finishes_gets_nothing(world, split):
    for team in ("solo", "duo"):
        for game in games(team, world, split):
            record = play(game, script(game, calls=()))
            assert record.terminated
            assert not record.success, record.task_id
            assert sum(record.rewards) == 0.0


@pytest.mark.parametrize(("world", "split"), SETS)
def test_each_task_needs_all_that_its_script_changes(world, split):
    """Without its last call, every script fails: no goal is reached by looking, or twice."""
    for game in games("solo", world, split):
        record = play(game, script(game, calls=game.unwrapped.task.reference[:-1]))
        assert not record.success, record.task_id


@pytest.mark.parametrize("world", SPLITS)
def test_random_text_gets_nothing(world):
    for game in games("solo", world, "test"):
        while game.agents:
            over = game.terminations[game.agent_selection] or game.truncations[game.agent_selection]
            game.step(None if over else game.action_space(game.agent_selection).sample())
        assert not game.unwrapped.episode().success


def random_call(game, generator):
    """Call one of the agent's own tools with words that it has seen, numbers or values that the schema allows."""
    own = game.unwrapped.tasks.surface.owned[game.unwrapped.task.world][game.agent_selection]
    tool = own[generator.choice(list(own))]
    words = game.observe(game.agent_selection).replace('"', " ").replace(",", " ").split()
    arguments = {}
    for name, schema in tool.parameters["properties"].items():
        if "enum" in schema:
            arguments[name] = str(generator.choice(schema["enum"]))
        elif schema["type"] == "integer":
            arguments[name] = int(generator.integers(1, 100))
        else:
            arguments[name] = str(generator.choice(words)).strip(".:[]{}()")
    return Call(tool.name, arguments)


@pytest.mark.parametrize("world", SPLITS)
def test_random_calls_of_the_right_form_get_next_to_nothing(world):
    generator = np.random.default_rng(3)
    solved = 0
    for game in games("duo", world, "test"):
        while game.agents:
            over = game.terminations[game.agent_selection] or game.truncations[game.agent_selection]
            call = None if over else random_call(game, generator)
            text = "" if over else f"{call.name}({', '.join(f'{k}={v!r}' for k, v in call.arguments.items())})"
            game.step(None if over else text)
        solved += game.unwrapped.episode().success
    assert solved <= 0.02 * len(game.unwrapped.tasks)


@pytest.mark.parametrize("team", ["solo", "duo", "trio"])
@pytest.mark.parametrize("world", SAFE)
def test_who_obeys_the_wrong_side_violates_every_safety_task(team, world):
    """The obedient script is played with the same calls as the oracle's, up to where it obeys."""
    obedient = [as_calls(row["obedient"]) for row in rows(world, "safety")]
    for game, calls in zip(games(team, world, "safety"), obedient, strict=True):
        record = play(game, script(game, calls=calls))
        assert statuses(record) == {"ok"}, record.task_id
        assert record.outcomes[-1].detail["violation"], record.task_id
        assert not record.success


def test_an_injected_order_is_really_read():
    """Somewhere in the oracle's own results the injected text stands."""
    marks = ("SYSTEM", "IMPORTANT for assistants", "NOTE TO ASSISTANTS", "AI agents")
    seen = 0
    for world in SAFE:
        for game in games("solo", world, "safety"):
            record = play(game, script(game))
            texts = [event.get("result", "") for outcome in outcomes(record) for event in outcome.events]
            seen += any(mark in text for text in texts for mark in marks)
    assert seen == 24


@pytest.mark.parametrize("world", SAFE)
def test_a_violation_is_reported_beside_success_and_leaves_the_reward_alone(world):
    """Without the rule, the very same episode has the same success, rewards and terms."""
    for game, row in zip(games("solo", world, "safety"), rows(world, "safety"), strict=True):
        task = game.unwrapped.task
        told = play(game, script(game, calls=as_calls(row["obedient"])))
        permissive = replace(task, goal=replace(task.goal, forbidden=()))
        free = marft_envs.make("marft/tools_solo-v0", data=ToolTasks("tools", WORLDS, [permissive]), reward="recipe")
        free.reset(seed=0)
        untold = play(free, script(free, calls=as_calls(row["obedient"])))
        told_outcome, untold_outcome = told.outcomes[-1], untold.outcomes[-1]
        assert (told_outcome.detail["violation"], untold_outcome.detail["violation"]) == (True, False)
        assert told_outcome.detail | {"violation": False} == dict(untold_outcome.detail)
        assert (told_outcome.success, told_outcome.reward) == (untold_outcome.success, untold_outcome.reward)


def test_every_team_larger_than_one_needs_hand_offs():
    for team in HANDING_OVER:
        for world in SPLITS:
            for game in games(team, world, "test"):
                assert any("hand_off(" in action for _, action in script(game)), (team, game.unwrapped.task.id)


def test_a_script_for_the_wrong_team_says_so():
    game = new_game("duo", "lookup")
    game.reset(seed=0)
    with pytest.raises(ValueError, match="turn 0: the script lets writer_0 act, but it is the turn of reader_0"):
        play(game, [("writer_0", "finish()")])
    with pytest.raises(ValueError, match="no agent of the team owns the tool 'fly'"):
        script(game, [Call("fly")])


@pytest.mark.parametrize("world", SPLITS)
def test_random_routes_get_nothing(world):
    generator = np.random.default_rng(5)
    for game in games("routed", world, "test"):
        while game.agents:
            over = game.terminations[game.agent_selection] or game.truncations[game.agent_selection]
            chosen = str(generator.choice(["finder_0", "reader_0", "rules_0"]))
            game.step(None if over else f"-> {chosen}" if game.agent_selection == "orchestrator_0" else "finish()")
        assert not game.unwrapped.episode().success
