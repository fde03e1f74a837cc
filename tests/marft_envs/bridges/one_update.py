"""One update of our learner on anybody's game."""

from __future__ import annotations

import numpy as np

from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.policies.scripted import MixedPolicy
from marft_agents.rollouts.text_spaces import refuse_unsuitable
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.trainer import Trainer
from tests.helpers.fakes import word_team


def one_update(make_env, agents, partners=None):
    """Train for an update on words that a tiny random model says; return the metrics and which adapters moved."""
    refuse_unsuitable(make_env())
    team = word_team(agents, sampling=SamplingParams(max_new_tokens=1))
    policy = MixedPolicy({**dict.fromkeys(agents, team), **(partners or {})})
    learner = Learner(team, LearnerSettings(policy_lr=1e-2, critic_lr=1e-2))
    schedule = TrainingSchedule(updates=1, groups=8, group_size=2, seed=1)
    before = snapshot(team, agents)
    metrics = Trainer(make_env, team, learner, schedule, policy=policy).step()
    after = snapshot(team, agents)
    return metrics, {agent for agent in agents if not all(map(np.array_equal, before[agent], after[agent]))}


def snapshot(team, agents):
    base = team.local_agents[agents[0]].base
    return {agent: [t.detach().numpy().copy() for t in base.parameters(agent).values()] for agent in agents}
