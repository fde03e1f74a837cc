"""The presets against the paper's tables 3, 4 and 5, row by row, and what becomes of them per algorithm."""

from __future__ import annotations

import dataclasses

import pytest

from baselines.cli.main import build_parser
from baselines.cli.train import experiment_of
from baselines.experiment.experiment import ATTRIBUTES
from baselines.experiment.presets import PRESETS
from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.algorithms import ALGORITHMS
from marft_agents.learning.learner import Learner
from marft_agents.setting_fields import SettingsError
from tests.helpers.fakes import CopyDigit, RelayDigit, word_team
from tests.helpers.naive import logprobs, play

# (row of the tables, flags that say it, number); the critic's loss coefficient, 1, is asserted where its step is
# compared with Adam on the plain mean loss: tests/marft_agents/properties/test_paper.py
ROWS = [
    ("learning rate of the policies", ["policy_lr"], 0.000001),
    ("learning rate of the critic", ["critic_lr"], 0.00001),
    ("Adam epsilon", ["adam_epsilon"], 0.00001),
    ("gamma", ["discount", "token_discount"], 0.99),
    ("GAE lambda", ["trace_decay", "token_trace_decay"], 0.95),
    ("clip", ["clip_low", "clip_high"], 0.2),
    ("largest gradient norm", ["max_grad_norm"], 0.5),
    ("PPO epochs", ["ppo_epochs", "value_epochs"], 1),
    ("mini-batches", ["mini_batches", "value_mini_batches"], 1),
    ("hidden size of the critic", ["value_width"], 64),
    ("context window", ["context_window"], 2048),
    ("new tokens", ["max_new_tokens"], 512),
    ("roll-out threads", ["groups", "num_envs"], 4),
]
ENTROPY = {"paper-table3": 0.1, "paper-table4": 0, "paper-table5": 0.01}
APPENDIX = {"centring": "none", "scaling": "batch", "value_clip": 0.2, "kl_stop": 0.02}


def experiment(*flags, algorithm="marft-t"):
    arguments = ["train", "--env", "marft/math_duo-v0", "--model", "tiny", "--algorithm", algorithm, *flags]
    return experiment_of(build_parser().parse_args(arguments))


def settings_of(found):
    """All settings of an experiment by name."""
    return {name: value for part in ATTRIBUTES.values() for name, value in vars(getattr(found, part)).items()}


@pytest.mark.parametrize("table", ENTROPY)
@pytest.mark.parametrize(("row", "names", "number"), ROWS, ids=[row for row, _, _ in ROWS])
def test_a_table_row_by_row(table, row, names, number):
    found = settings_of(experiment("--preset", table))
    for name in names:
        assert found[name] == number


@pytest.mark.parametrize("table", ENTROPY)
def test_the_rest_of_a_table_and_the_appendix(table):
    found = settings_of(experiment("--preset", table))
    assert found["entropy_bonus"] == ENTROPY[table]
    assert found["group_size"] == 1
    assert {name: found[name] for name in APPENDIX} == APPENDIX
    said = {name for _, names, _ in ROWS for name in names} | set(APPENDIX)
    assert set(PRESETS[table]) - said == {"entropy_bonus", "group_size", "lr_schedule", "huber_delta"}


def test_paper_is_table_3():
    assert PRESETS["paper"] == PRESETS["paper-table3"]
    assert experiment("--preset", "paper") == experiment("--preset", "paper-table3")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_goes_with_every_algorithm(preset, algorithm):
    found = experiment("--preset", preset, algorithm=algorithm).learner
    table = preset.startswith("paper")
    discounts = found.level == "token" and found.critic and found.credit != "round" and algorithm != "vapo"
    assert found.token_discount == (0.99 if table and discounts else 1)
    assert found.token_trace_decay == (0.95 if table and discounts else 1)


def test_what_the_user_says_of_tokens_at_action_level_is_refused():
    with pytest.raises(SettingsError, match="here tokens have no values"):
        experiment("--preset", "paper-table3", "--token-discount", "0.99", algorithm="marft-a")


def test_every_key_is_a_setting():
    assert {name for values in PRESETS.values() for name in values} <= set(settings_of(experiment()))


@pytest.mark.parametrize("table", ENTROPY)
@pytest.mark.parametrize("algorithm", ["marft-a", "marft-t"])
@pytest.mark.parametrize("game", [CopyDigit, RelayDigit], ids=["duo", "trio"])
def test_the_first_solved_episode_of_four_trains_every_agent_towards_it(table, algorithm, game):
    """V = 0 so far, so the advantages of the three failed episodes are exactly 0."""
    team = word_team(game.speakers, sampling=SamplingParams(max_new_tokens=3), stir=0.1)
    played = play(team, game, episodes=60)
    solved = next(episode for episode in played if episode.team_return)
    failed = [episode for episode in played if not episode.team_return and not _shared_actions(episode, solved)]
    chosen = dataclasses.replace(experiment("--preset", table, algorithm=algorithm).learner, policy_lr=1e-3)
    before = _action_logprobs(team, solved)
    Learner(team, chosen).update([failed[0], solved, *failed[1:3]])
    rises = {agent: after - before[agent] for agent, after in _action_logprobs(team, solved).items()}
    assert min(rises.values()) > 0.1, rises


def _action_logprobs(team, episode):
    """Return the log-prob of each agent's action now."""
    return {
        turn.agent: logprobs(team.local_agent(turn.agent).base, turn.agent, turn.action, team.sampling)[0].sum().item()
        for turn in episode.turns
    }


def _shared_actions(one, other):
    """Return the agents that did the same in both episodes after the same prompt."""
    return [
        a.agent
        for a, b in zip(one.turns, other.turns, strict=True)
        if a.action.prompt_ids.tobytes() == b.action.prompt_ids.tobytes()
        and a.action.token_ids.tobytes() == b.action.token_ids.tobytes()
    ]
