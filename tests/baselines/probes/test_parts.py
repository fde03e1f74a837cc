"""Probe games in parts: an oracle solves them, links alone need a message, and one agent can do all."""

import numpy as np
import pytest

import marft_envs
from baselines.bench.needs_team import needs_team
from baselines.probes.parts import GAMES, PartsTasks, team_of
from marft_envs.testing import check_environment

HERE = "baselines.probes.parts:probe"


@pytest.mark.parametrize(
    ("game", "verdict"),
    [("parts", "needs its partners' actions but none of their messages"), ("links", "needs a team")],
)
def test_an_oracle_solves_them_and_links_alone_need_messages(game, verdict):
    found = needs_team(f"{HERE}/{game}_quartet-v0", {}, limit=40)
    assert found.probes[0].success.mean == 1.0
    assert found.verdict.startswith(verdict)


@pytest.mark.parametrize("game", GAMES)
def test_one_agent_is_told_all_digits_and_gives_all_answers(game):
    env = marft_envs.make(f"{HERE}/{game}_quartet-v0", split="test", team=team_of(game, 1).to_dict())
    env.reset(seed=0, options={"index": 3})
    observation = env.observe("agent_0")
    oracle = PartsTasks(game, 4, "test").oracle(None, "agent_0", observation)
    assert len(oracle.split()) == 4
    assert len(observation.messages[0]["content"].split()) == {"parts": 8, "links": 2}[game]
    *first, last = oracle.split()
    env.step(" ".join([*first, str((int(last) + 1) % 3)]))
    assert env.rewards["agent_0"] == 0.75
    env.reset(seed=0, options={"index": 3})
    env.step(oracle)
    assert (env.rewards["agent_0"], env.infos["agent_0"]["success"]) == (1.0, True)


def test_each_split_draws_its_own_digits():
    roster, drawn = team_of("parts", 8).roster, set()
    for split in ("train", "test", "bench"):
        tasks = PartsTasks("parts", 8, split)
        drawn.add(tuple(tasks.begin(tasks[0], roster, np.random.default_rng(0)).wanted))
    assert len(drawn) == 3


@pytest.mark.parametrize("game", GAMES)
def test_they_conform(game):
    report = check_environment(lambda **kw: marft_envs.make(f"{HERE}/{game}_quartet-v0", **kw), cycles=20)
    left_out = {"random text wins nothing"}  # a random character is right in a third of all parts
    assert [str(check) for check in report.checks if check.passed is False and check.name not in left_out] == []


def test_bad_games_and_teams_are_refused():
    with pytest.raises(ValueError, match="found game 'chess'"):
        PartsTasks("chess", 2)
    env = marft_envs.make(f"{HERE}/parts_duo-v0", team=team_of("parts", 4).to_dict())
    with pytest.raises(ValueError, match="found 4 agents, wanted 2 or 1"):
        env.reset(seed=0)
