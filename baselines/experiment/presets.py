"""Presets: named sets of values that override the defaults of the settings.

Keys are fields of the settings dataclasses of `baselines.experiment.experiment.SETTINGS`. A preset's value is ignored
where it does not apply to the algorithm, such as gamma between tokens at action level or a value head without a critic.
A flag that does not apply is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

# MARFT, arXiv 2504.16129: rows that tables 3, 4 and 5 share. The row "loss coefficient of the critic: 1" has no
# setting: the critic's loss has its own optimizer and no coefficient (docs/algorithms.md).
TABLES: Mapping[str, Any] = MappingProxyType(
    {
        "policy_lr": 1e-6,  # learning rate of the actors
        "critic_lr": 1e-5,  # learning rate of the critic
        "lr_schedule": "constant",  # no schedule is listed
        "adam_epsilon": 1e-5,  # Adam, epsilon
        "discount": 0.99,  # gamma between turns and, at token level, between tokens (section 4.1.2)
        "token_discount": 0.99,
        "trace_decay": 0.95,  # lambda of GAE, between turns and between tokens
        "token_trace_decay": 0.95,
        "clip_low": 0.2,  # clip range of the importance ratio
        "clip_high": 0.2,
        "max_grad_norm": 0.5,  # maximum gradient norm
        "ppo_epochs": 1,  # PPO epochs, for the policies and the critic
        "value_epochs": 1,
        "mini_batches": 1,  # mini-batches per epoch, for the policies and the critic
        "value_mini_batches": 1,
        "value_width": 64,  # hidden size of the value head
        "huber_delta": 10.0,  # Huber loss is listed, its threshold is not: value of the authors' code
        "context_window": 2048,  # tokens of a prompt and its action together
        "max_new_tokens": 512,
        "groups": 4,  # rollout threads: each plays one episode of one problem per update
        "group_size": 1,
        "num_envs": 4,
        # code in appendix A: one normalisation over all agents, values clipped with the policies' bound. It leaves out
        # zeros, which are padding there; here a zero is a decision (docs/algorithms.md)
        "centring": "none",
        "scaling": "batch",
        "value_clip": 0.2,
        "kl_stop": 0.02,  # "not a fixed value"
    }
)
TABLE_3 = MappingProxyType({**TABLES, "entropy_bonus": 0.1})  # figure 3

# a small model on two CPU cores; used by the quickstart
LAPTOP: Mapping[str, Any] = MappingProxyType(
    {
        "policy_lr": 2e-3,
        "critic_lr": 1e-3,
        "centring": "group",
        "discount": 1.0,
        "trace_decay": 1.0,
        "temperature": 0.8,
        "max_new_tokens": 16,
        "groups": 8,
        "group_size": 8,
        "micro_batch": 64,
    }
)
DEFAULT_PRESET = "laptop"
LADDER = "embedded:ladder"  # data with presets of their own

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": TABLE_3,  # an alias
    "paper-table3": TABLE_3,
    "paper-table4": MappingProxyType({**TABLES, "entropy_bonus": 0.0}),  # figure 4a
    "paper-table5": MappingProxyType({**TABLES, "entropy_bonus": 0.01}),  # figures 4b and 4c
    # the authors' later runs
    "authors": {
        "rank": 32,
        "alpha": 16,
        "policy_lr": 3e-5,
        "lr_schedule": "cosine",
        "max_new_tokens": 2048,
        "groups": 128,
        "group_size": 1,
    },
    "laptop": LAPTOP,
    # the ladder with a model of 135 M parameters, which temperature 1 ruins over more than a few tokens
    "ladder-math": {**LAPTOP, "max_new_tokens": 24},
    "ladder-cmath": {**LAPTOP, "max_new_tokens": 24},
    "ladder-codeforces": {**LAPTOP, "temperature": 0.6, "max_new_tokens": 48},
    "ladder-tools": {**LAPTOP, "max_new_tokens": 20},
}


def usual_preset(task: str, data: str) -> str:
    """Return the preset of trainings of a task on some data.

    Examples:
        >>> usual_preset("math", "embedded:ladder"), usual_preset("math", "embedded")
        ('ladder-math', 'laptop')
    """
    own = f"ladder-{task}"
    return own if data == LADDER and own in PRESETS else DEFAULT_PRESET
