"""The routed preset for mathematics: who acts, what the oracle and random text reach."""

from __future__ import annotations

import numpy as np
import pytest

import marft_envs
from baselines.experiment.gold_answers import gold_answer

IDS = [f"marft/{task}_routed-v0" for task in ("math", "gsm8k", "aime", "cmath")]
SPECIALISTS = ("arithmetic_0", "algebra_0", "geometry_0")


def play(env, index, say):
    """Play a problem; return the record."""
    env.reset(seed=index, options={"index": index})
    while not (env.terminations["actor_0"] or env.truncations["actor_0"]):
        env.step(say(env.agent_selection))
    return env.unwrapped.episode()


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.parametrize("asked", [(), *((name,) for name in SPECIALISTS), SPECIALISTS[1:], SPECIALISTS])
def test_only_those_who_are_asked_act_and_the_gold_answer_wins(env_id, asked):
    env = marft_envs.make(env_id)
    for index in range(3):
        said = {"orchestrator_0": f"-> {', '.join(asked or ['actor_0'])}"}
        record = play(env, index, lambda agent, said=said: said.get(agent) or gold_answer(env.unwrapped))
        assert record.success
        assert not any(turn.fault for turn in record.turns)
        acting = {turn.agent: turn for turn in record.turns}
        assert set(acting) == {"orchestrator_0", *asked, "actor_0"}
        assert {turn.layer for agent, turn in acting.items() if agent in SPECIALISTS} <= {1}
        heard = [author for _, author in acting["actor_0"].visible]
        assert heard == ["orchestrator_0", *(name for name in SPECIALISTS if name in asked)]


def test_an_orchestrator_that_names_nobody_asks_the_generalist():
    env = marft_envs.make("marft/math_routed-v0")
    record = play(env, 0, lambda agent: "I have nothing to add.")
    assert [turn.agent for turn in record.turns] == ["orchestrator_0", "arithmetic_0", "actor_0"]
    assert "no route found" in record.turns[0].fault


@pytest.mark.parametrize("env_id", IDS)
def test_random_words_win_nothing(env_id):
    env, generator = marft_envs.make(env_id), np.random.default_rng(0)
    words = ["->", *SPECIALISTS, "actor_0", "1", "2", "7", "10", "\\boxed{", "}"]
    won = [play(env, index, lambda agent: " ".join(generator.choice(words, size=6))).success for index in range(30)]
    assert sum(won) <= 1
