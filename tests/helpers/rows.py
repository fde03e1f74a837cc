"""Rows of a batch one by one, as the tests of credit read them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from marft_agents.learning.batch import build_batch
from marft_agents.learning.credit import estimate


def rows_of(batch):
    """Return per action its agent, episode and parts of the flat arrays."""
    parts = {
        name: np.split(getattr(batch, name), getattr(batch, offsets)[1:-1])
        for offsets, names in (
            ("decision_offsets", ("advantages", "credit")),
            ("value_offsets", ("values", "returns")),
        )
        for name in names
    }
    return [
        SimpleNamespace(
            agent=batch.agents[batch.agent[i]],
            episode=batch.episode[i],
            reward=batch.reward[i],
            action=batch.actions[i],
            **{name: own[i] for name, own in parts.items()},
        )
        for i in range(len(batch.actions))
    ]


def credited(trajectories, values, bootstraps, settings, *, costs=None, ratios=None):
    """Return the rows of a batch with advantages.

    Args:
        trajectories: episodes of the batch.
        values: per action, V before each decision that the critic evaluates; empty without a critic.
        bootstraps: (episode, agent) -> V after a truncated episode; "" stands for all agents.
        settings: of the learner.
        costs: per action, the shaping of each decision.
        ratios: (episode, round) -> ratio of the agents updated before.
    """
    batch = build_batch(trajectories, {}, settings)
    keys = [(e, batch.agents[a]) for e, a in zip(batch.episode.tolist(), batch.agent, strict=True)]
    found = [bootstraps.get((e, agent), bootstraps.get((e, ""), 0.0)) for e, agent in keys]
    batch = batch._replace(bootstrap=np.array(found), values=np.concatenate([np.zeros(0), *values]))
    assert len(batch.values) == len(batch.returns)
    if costs is not None:
        batch = batch._replace(shaping=np.concatenate(costs))
    by_round = None
    if ratios is not None:
        by_round = np.zeros(batch.joint.max() + 1)
        for i, number in enumerate(batch.joint):
            by_round[number] = ratios[batch.episode[i], batch.round[i]]
    return rows_of(estimate(batch, settings, by_round))
