"""The presets against the paper's tables 3, 4 and 5, row by row, and what becomes of them per algorithm."""

from __future__ import annotations

import pytest

from baselines.cli.main import build_parser
from baselines.cli.train import DEFAULTS
from baselines.experiment_settings import SETTINGS, Experiment
from baselines.presets import PRESETS
from marft_agents.learning.algorithms import ALGORITHMS
from marft_agents.setting_fields import SettingsError

# (row of the tables, flags that say it, number); the critic's loss coefficient, 1, is asserted where its step is
# compared with Adam on the plain mean loss: tests/marft_agents/test_paper.py
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
APPENDIX = {"centring": "none", "scaling": "batch-nonzero", "value_clip": 0.2, "kl_stop": 0.02}


def experiment(*flags, algorithm="marft-t"):
    arguments = ["train", "--env", "marft/math_duo-v0", "--model", "tiny", "--algorithm", algorithm, *flags]
    told = build_parser().parse_args(arguments)
    for name, default in DEFAULTS.items():
        setattr(told, name, getattr(told, name) or default)
    return Experiment.from_arguments(told)


def settings_of(found):
    """All settings of an experiment by name."""
    return {name: value for part in SETTINGS for name, value in vars(getattr(found, part)).items()}


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
