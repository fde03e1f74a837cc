"""Tianshou PPO: one policy plays both agents through `SharedPolicyEnv`.

Tianshou's multi-agent manager cannot train PPO in a game with a reward after the last speaker. The transitions of
earlier speakers would have no reward (see `tianshou_dqn`).

    python -m baselines.third_party.tianshou_ppo
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic

from baselines.third_party.credit_check import Credit
from baselines.third_party.games import Game
from baselines.third_party.training_script import Algorithm, main
from marft_envs.wrappers import SharedPolicyEnv

NUM_ENVS, STEPS_PER_ROLLOUT = 8, 512


class WitnessedPPO(PPO):  # type: ignore[misc]
    """PPO that records the returns it computes."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.credit = Credit()

    def _preprocess_batch(self, batch: Any, buffer: Any, indices: Any) -> Any:
        done = super()._preprocess_batch(batch, buffer, indices)
        for part in np.array_split(np.arange(len(indices)), NUM_ENVS):  # transitions are ordered by environment
            self.credit.add(done.returns[part], batch.rew[part], batch.done[part])
        return done


def make_algorithm(env: Any) -> WitnessedPPO:
    """Build PPO with small networks."""
    observations, actions = env.observation_space, env.action_space

    def network() -> Net:
        return Net(state_shape=observations.shape, hidden_sizes=[64])

    actor = DiscreteActor(preprocess_net=network(), action_shape=actions.n, softmax_output=False)
    policy = DiscreteActorPolicy(
        actor=actor, action_space=actions, observation_space=observations, dist_fn=_categorical
    )
    critic = DiscreteCritic(preprocess_net=network())
    return WitnessedPPO(policy=policy, critic=critic, optim=AdamOptimizerFactory(lr=1e-3), ent_coef=0.01)


def _categorical(logits: torch.Tensor) -> torch.distributions.Categorical:
    return torch.distributions.Categorical(logits=logits)


def train(game: Game, steps: int, seed: int) -> Credit:
    """Train with discrete actions, one per candidate answer."""
    np.random.seed(seed)  # Tianshou explores with the global generator
    torch.manual_seed(seed)
    envs = DummyVectorEnv([lambda: SharedPolicyEnv(game.choosing())] * NUM_ENVS)
    envs.seed(seed)
    algorithm = make_algorithm(SharedPolicyEnv(game.choosing()))
    collector = Collector(algorithm, envs, VectorReplayBuffer(STEPS_PER_ROLLOUT, NUM_ENVS))
    algorithm.run_training(
        OnPolicyTrainerParams(
            training_collector=collector,
            max_epochs=1,
            epoch_num_steps=steps,
            collection_step_num_env_steps=STEPS_PER_ROLLOUT,
            batch_size=64,
            update_step_num_repetitions=8,
            verbose=False,
            show_progress=False,
        )
    )
    credit: Credit = algorithm.credit
    return credit


ALGORITHMS = {"ppo": Algorithm("CandidateAction, SharedPolicyEnv", train)}

if __name__ == "__main__":
    sys.exit(main("tianshou", ALGORITHMS))
