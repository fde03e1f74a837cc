"""Probe games: their knowledge is split, an oracle solves them, and what they need is known."""

import pytest

import marft_envs
from baselines.bench.needs_team import needs_team
from baselines.probes.digit_games import GAMES, SIZES, ProbeTasks, read, team_of
from marft_envs.testing import check_environment

HERE = "baselines.probes.digit_games:probe"


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("size", SIZES)
def test_the_knowledge_is_split_and_one_agent_knows_it_all(game, size):
    env = marft_envs.make(f"{HERE}/{game}_{size}-v0", split="test")
    alone = marft_envs.make(f"{HERE}/{game}_{size}-v0", split="test", team=team_of(game, 1).to_dict())
    for each in (env, alone):
        each.reset(seed=0, options={"index": 3})
    told = {agent: env.observe(agent).messages[0] for agent in env.possible_agents}
    texts = [message["content"] for message in told.values() if message["role"] == "system"]
    assert len(env.possible_agents) == SIZES[size]
    assert len(texts) == {"copy": 1, "sum": SIZES[size], "route": SIZES[size]}[game]
    assert alone.observe("agent_0").messages[0]["content"] == " ".join(texts)


@pytest.mark.parametrize(
    ("game", "verdict"),
    [
        ("copy", "needs a team: success falls when it is muted"),
        ("sum", "needs a team"),
        ("route", "needs its partners'"),
    ],
)
def test_an_oracle_solves_each_game_and_shows_what_it_needs(game, verdict):
    for size in ("duo", "octet") if game != "route" else ("quartet", "dozen"):
        found = needs_team(f"{HERE}/{game}_{size}-v0", {}, limit=40)
        assert found.probes[0].success.mean == 1.0
        assert found.verdict.startswith(verdict)


def test_an_action_is_read_by_its_first_character():
    assert [read(text, 3) for text in ("0", "1 of it", " 2", "5", "b", "")] == [0, 1, 2, 2, 2, None]
    assert read("k", 11, first="a") == 10


@pytest.mark.parametrize("game", GAMES)
def test_they_conform(game):
    report = check_environment(lambda **kw: marft_envs.make(f"{HERE}/{game}_quartet-v0", **kw), cycles=20)
    left_out = {"random text wins nothing"}  # a random character is right in a third of all games
    assert [str(check) for check in report.checks if check.passed is False and check.name not in left_out] == []


def test_bad_games_and_teams_are_refused():
    with pytest.raises(ValueError, match="found game 'chess'"):
        ProbeTasks("chess", 2)
    with pytest.raises(ValueError, match="players = 1"):
        ProbeTasks("sum", 1)
    with pytest.raises(ValueError, match="leave it out"):
        marft_envs.make(f"{HERE}/copy_duo-v0", data="embedded:stories")
    env = marft_envs.make(f"{HERE}/copy_duo-v0", team=team_of("copy", 4).to_dict())
    with pytest.raises(ValueError, match="found 4 agents, wanted 2 or 1"):
        env.reset(seed=0)
