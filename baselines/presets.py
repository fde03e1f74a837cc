"""Presets: named values of settings, which go before the defaults of the settings themselves.

Keys are fields of the settings dataclasses of `baselines.experiment.SETTINGS`. A value that means nothing to the
algorithm that is run (gamma between tokens at action level, a value head without a critic) is passed over; a flag that
means nothing is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

# MARFT, arXiv 2504.16129: the rows that tables 3, 4 and 5 share. The row "loss coefficient of the critic: 1" is no
# setting: the critic's loss has an optimizer of its own and no coefficient (docs/algorithms.md).
TABLES: Mapping[str, Any] = MappingProxyType(
    {
        "policy_lr": 1e-6,  # learning rate of the actors
        "critic_lr": 1e-5,  # learning rate of the critic
        "lr_schedule": "constant",  # no schedule is listed
        "adam_epsilon": 1e-5,  # Adam, epsilon
        "discount": 0.99,  # gamma: of turns and, at token level, of every token (section 4.1.2)
        "token_discount": 0.99,
        "trace_decay": 0.95,  # lambda of GAE: likewise
        "token_trace_decay": 0.95,
        "clip_low": 0.2,  # clip
        "clip_high": 0.2,
        "max_grad_norm": 0.5,  # largest gradient norm
        "ppo_epochs": 1,  # epochs of PPO: of the policies and of the critic alike
        "value_epochs": 1,
        "mini_batches": 1,  # mini-batches per epoch: likewise
        "value_mini_batches": 1,
        "value_width": 64,  # hidden size of the critic
        "huber_delta": 10.0,  # Huber loss: yes; where it turns linear is not listed, this is the authors' code's
        "context_window": 2048,  # tokens of a prompt and the answer to it
        "max_new_tokens": 512,
        "groups": 4,  # roll-out threads: each plays one episode of one problem per update
        "group_size": 1,
        "num_envs": 4,
        # the code in appendix A: one normalisation over all agents, values clipped by the bound of the policies
        "centring": "none",
        "scaling": "batch-nonzero",
        "value_clip": 0.2,
        "kl_stop": 0.02,  # "not a fixed value"
    }
)
TABLE_3 = MappingProxyType({**TABLES, "entropy_bonus": 0.1})  # figure 3

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
    # a small model on two CPU cores; what the quickstart uses
    "laptop": {
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
    },
}
