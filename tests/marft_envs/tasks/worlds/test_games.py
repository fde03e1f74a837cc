"""Games in the worlds: independent of each other, exact to copy and replay, and good PettingZoo environments."""

from __future__ import annotations

import copy
import json
import pickle
import time
from functools import partial

import numpy as np
import pytest
from pettingzoo.test import api_test

import marft_envs
from marft_envs import Team
from marft_envs.game.episode import Episode
from marft_envs.game.turn import Turn
from marft_envs.records.replay import replay
from marft_envs.tasks.worlds import play, script
from marft_envs.testing import check_environment
from tests.marft_envs.tasks.worlds.world_games import NAMES, SETS, after, cached_tasks, new_game

MANY = [400, pytest.param(10_000, marks=pytest.mark.slow)]


def written(call):
    arguments = ", ".join(f"{name}={json.dumps(value)}" for name, value in call.arguments.items())
    return f"{call.name}({arguments})"


@pytest.mark.parametrize("episodes", MANY)
def test_many_episodes_side_by_side_see_nothing_of_each_other(episodes):
    """Every second one of a task plays its script, call by call in turn with the others; the rest only look on.

    Those that look on must end as they began, those that play as each alone would; memory stays within what the
    changed states take.
    """
    team = Team.preset("solo", family="tools")
    tasks = cached_tasks("embedded", "train").for_team(team)
    wanted = [json.loads(after(task, task.reference)) for task in tasks]
    generator, began = np.random.default_rng(0), time.process_time()
    sessions = [tasks.begin(tasks[place % len(tasks)], team.roster, generator) for place in range(episodes)]
    players = [place for place in range(episodes) if (place // len(tasks)) % 2 == 0]
    for number in range(max(len(task.reference) for task in tasks)):
        for place in players:
            reference = sessions[place].task.reference
            if number < len(reference):
                turn = Turn("agent_0", number, 0, (), "", written(reference[number]))
                outcome = sessions[place].advance([turn], round=number, last_round=False)
                assert outcome.events[0]["status"] == "ok", outcome
    playing = set(players)
    for place, session in enumerate(sessions):
        state = json.loads(session.state) if place in playing else session.task.state
        assert place in playing or session.state is session.task.start
        assert state == (wanted[place % len(tasks)] if place in playing else session.task.state), session.task.id
    changed = sum(len(session.state) for session in sessions if session.state is not session.task.start)
    assert changed < episodes * 8192
    assert len({session.rollout for session in sessions}) == episodes
    assert time.process_time() - began < episodes * 0.1  # 0.0012 s each on an idle core, 0.007 s under coverage


@pytest.mark.parametrize(("world", "split"), SETS)
def test_tasks_are_never_written_to(world, split):
    tasks = cached_tasks(f"embedded:{world}", split)
    before = [json.dumps(task.state) for task in tasks]
    game = new_game("duo", world, split)
    for index in range(min(10, len(tasks))):
        game.reset(seed=index, options={"index": index})
        play(game, script(game))
    assert [json.dumps(task.state) for task in tasks] == before


@pytest.mark.parametrize("world", NAMES)
@pytest.mark.parametrize("team", ["solo", "duo", "trio"])
def test_a_record_replays_exactly(team, world):
    game = new_game(team, world)
    game.reset(seed=11)
    record = play(game, script(game))
    again = Episode.from_json(record.to_json())
    assert again == record
    assert replay(new_game(team, world), again) == []


@pytest.mark.parametrize("world", NAMES)
def test_a_copy_at_any_moment_goes_on_alike_and_alone(world):
    game = new_game("trio", world)
    game.reset(seed=5)
    actions = script(game)
    for place in range(len(actions)):
        game.reset(seed=5)
        play(game, actions[:place])
        seen = {agent: str(game.observe(agent)) for agent in game.agents}
        for clone in (copy.deepcopy(game), pickle.loads(pickle.dumps(game))):
            assert play(clone, actions[place:]).success
        assert {agent: str(game.observe(agent)) for agent in game.agents} == seen
        assert play(game, actions[place:]).success


@pytest.mark.parametrize("world", NAMES)
def test_the_same_seed_gives_the_same_transcript(world):
    def transcript(seed):
        game = new_game("duo", world)
        game.reset(seed=seed)
        play(game, script(game))
        return str(game.unwrapped.state())

    assert transcript(3) == transcript(3)
    assert len({transcript(seed) for seed in range(6)}) > 1


@pytest.mark.parametrize("team", ["solo", "duo", "trio", "quartet", "octet", "dozen", "routed"])
def test_pettingzoos_own_test_passes(team):
    api_test(marft_envs.make(f"marft/tools_{team}-v0"), num_cycles=40)


def test_the_conformance_kit_passes():
    tasks = cached_tasks("embedded", "train")
    make = partial(marft_envs.make, "marft/tools_duo-v0", data=tasks, horizon=4)
    report = check_environment(make, cycles=10)
    assert report.passed, str(report)


@pytest.mark.parametrize(("horizon", "solved"), [(1, False), (2, True)])
def test_an_episode_without_an_end_is_graded_on_its_last_state(horizon, solved):
    game = new_game("solo", "lookup", "test", horizon=horizon)
    game.reset(seed=0, options={"index": 0})
    actions = [action.replace("\nfinish()", "") for _, action in script(game)]
    assert len(actions) == 2
    for action in actions[:horizon]:
        game.step(action)
    record = game.unwrapped.episode()
    assert (record.success, record.terminated, record.truncated) == (solved, solved, not solved)
