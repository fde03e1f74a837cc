"""One agent of a game, as all bridges play it; TRL's environment, which needs nothing of TRL; and light imports."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import marft_envs
from marft_envs.bridges import (
    AgentAssignmentError,
    GameFailedError,
    SingleAgentGame,
    from_textarena,
    openenv,
    textarena,
    to_openenv,
    to_trl_environment,
    to_verifiers,
    verifiers,
)
from marft_envs.bridges.single_agent import chat, maker, news
from tests.helpers.fakes import Broken, Market, RouteToExpert

DUO = "marft/math_duo-v0"
TASK = marft_envs.make(DUO).unwrapped.tasks[3]
RIGHT = f"\\boxed{{{TASK.answer}}}"


def duo(agent, partner="reasoner_0", play=lambda seen: "Add them."):
    return SingleAgentGame(maker(DUO, {}), agent, {partner: play})


def market(agent="seller_0", partner="buyer_0", make=Market):
    """Return a game of markets, and the list of those that it made."""
    made = []
    return SingleAgentGame(lambda: made.append(make()) or made[-1], agent, {partner: lambda seen: "a"}), made


def test_the_partner_is_heard_and_the_agent_is_paid():
    heard = []
    game = duo("actor_0", play=lambda seen: heard.append(seen) or "Add them.")
    seen = game.begin(0, {"index": 3})
    assert TASK.prompt in heard[0]
    assert chat(seen)[-1] == {"role": "user", "content": "Add them.", "name": "reasoner_0"}
    assert game.over is None
    assert game.play(RIGHT) is None
    assert (game.reward, game.infos["success"]) == (1.0, 1)


def test_an_agent_that_speaks_first_is_paid_for_what_its_partner_answers():
    game = duo("reasoner_0", "actor_0", lambda seen: seen.messages[-1]["content"])
    game.begin(0, {"index": 3})
    assert game.play(RIGHT) is None
    assert game.reward == 1.0


def test_a_game_can_end_without_the_agent():
    game = SingleAgentGame(RouteToExpert, "expert_1", {"router_0": lambda seen: "0", "expert_0": lambda seen: seen[-1]})
    assert {(game.begin(seed), game.reward) for seed in range(8)} == {(None, 0.0), (None, 1.0)}


def test_an_environment_that_broke_is_replaced():
    game, made = market(make=lambda: Broken("reset"))
    with pytest.raises(GameFailedError, match="reset: RuntimeError: the roof fell in"):
        game.begin(0)
    assert game.begin(1) is not None
    assert len(made) == 2


def test_closing_the_game_closes_its_environment():
    game, made = market()
    game.begin(0)
    assert not made[0].closed
    game.close()
    assert [env.closed for env in made] == [True]


@pytest.mark.parametrize(
    ("agent", "partners", "message"),
    [
        ("actor_1", {}, "no agent 'actor_1'; there are reasoner_0, actor_0"),
        ("actor_0", {}, "nobody plays reasoner_0"),
        ("actor_0", {"critic_0": str}, "no agent 'critic_0'"),
    ],
)
def test_wrong_agents_are_named(agent, partners, message):
    with pytest.raises(AgentAssignmentError, match=message):
        SingleAgentGame(maker(DUO, {}), agent, partners)


def test_news_leave_out_what_is_known_and_what_one_said_oneself():
    told_back = {"kind": "matrix", "rows": [[0, 1], [0, 0]], "delayed": "all"}
    env = marft_envs.make(DUO, horizon=2, dependency=told_back)
    env.reset(seed=0)
    first = chat(env.observe("reasoner_0"))
    env.step("one")
    env.step("two")
    told = news(first, chat(env.observe("reasoner_0")))
    assert "two" in told
    assert "one" not in told.split("\n\n")
    assert first[-1]["content"] not in told
    assert news(chat("digit 1"), chat("digit 1 heard 2")) == "digit 1 heard 2"  # the past is told anew: all there is


# ------------------------------------------------------------------------- TRL


def trl_duo():
    return to_trl_environment(DUO, "actor_0", {"reasoner_0": lambda seen: "Add them."})()


def test_the_reset_of_trl_tells_the_task_and_how_to_act_and_a_group_starts_alike():
    told = trl_duo().reset(seed=0, task_id=TASK.id, prompt="ignored")
    assert [part for part in (TASK.prompt, "Add them.", "`say`") if part not in told] == []
    starts = [trl_duo().reset(seed=seed) for seed in (5, 5, 0, 1, 2, 3)]
    assert starts[0] == starts[1]
    assert len(set(starts)) > 1
    with pytest.raises(ValueError, match="a column 'seed'"):
        trl_duo().reset(prompt=[])


def test_trl_is_paid_once_the_game_is_over():
    game = trl_duo()
    game.reset(seed=0, index=3)
    assert game.get_reward() == 0.0
    for said in (RIGHT, "more"):
        assert game.say(said) == "The game is over."
        assert game.get_reward() == 1.0
    game.reset(seed=1)
    assert game.get_reward() == 0.0


@pytest.mark.parametrize("where", ["reset", "step"])
def test_a_broken_game_is_unscored_and_the_next_is_played(where):
    game = to_trl_environment(lambda: Broken(where), "buyer_0", {"seller_0": lambda seen: "a"})()
    told = game.reset(seed=0)
    assert ("the roof fell in" in told) == (where == "reset")
    if where == "step":
        with pytest.raises(GameFailedError):
            game.say("a")
    assert game.get_reward() is None
    assert "digit" in game.reset(seed=1)
    assert game.get_reward() == 0.0


# --------------------------------------------------------------------- imports


@pytest.mark.parametrize(
    ("call", "package", "bridge"),
    [
        (lambda: to_openenv(DUO, "actor_0", {"reasoner_0": str}), "openenv.core.env_server", openenv),
        (lambda: to_verifiers(DUO), "verifiers.v1", verifiers),
        (lambda: from_textarena("GuessTheNumber-v0", 1), "textarena", textarena),
    ],
)
def test_what_is_not_installed_is_named(call, package, bridge, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=re.escape(f"pip install '{bridge.REQUIREMENT}'")):
        call()


def test_bridges_import_none_of_the_packages():
    code = (
        "import sys, marft_envs; assert 'marft_envs.bridges' not in sys.modules\n"
        "import marft_envs.bridges\n"
        "print(sorted({'trl', 'verifiers', 'openenv', 'textarena', 'torch', 'openai', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
