"""Tianshou multi-agent DQN: one Q-network per agent on the AEC game, with action masks in the observations.

Tianshou stores the rewards of all agents with the transition of the acting agent. The first speaker's transition has
reward 0, and the team reward is in the next one. Returns over n = number of agents steps include it. With one-step
returns the first speaker would not learn. Tianshou's multi-agent manager does not set its agents to training mode.
They explore with the epsilon of inference, which is 0 by default.

    python -m baselines.third_party.tianshou_dqn
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from tianshou.algorithm import DQN, MultiAgentOffPolicyAlgorithm
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, PettingZooEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net

from baselines.third_party.credit_check import Credit
from baselines.third_party.games import Game
from baselines.third_party.training_script import Algorithm, main
from marft_envs.wrappers import ActionMask

NUM_ENVS, STEPS_PER_ROLLOUT, FINAL_EPSILON = 8, 64, 0.02


class WitnessedDQN(DQN):  # type: ignore[misc]
    """DQN that records the returns of its agent; each sample is a single transition."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.credit = Credit()

    def _preprocess_batch(self, batch: Any, buffer: Any, indices: Any) -> Any:
        done = super()._preprocess_batch(batch, buffer, indices)
        paid = buffer.rew[buffer.next(indices)]  # the game ends with the next transition
        self.credit.add(done.returns, paid, np.ones(len(indices)))
        return done


def make_algorithm(env: PettingZooEnv) -> MultiAgentOffPolicyAlgorithm:
    """Build one DQN per agent."""
    observations, actions = env.observation_space["observation"], env.action_space

    def dqn(kind: type[DQN]) -> DQN:
        policy = DiscreteQLearningPolicy(
            model=Net(state_shape=observations.shape, action_shape=actions.n, hidden_sizes=[64]),
            action_space=actions,
            observation_space=env.observation_space,
        )
        optim = AdamOptimizerFactory(lr=2e-3)
        return kind(policy=policy, optim=optim, n_step_return_horizon=len(env.agents), target_update_freq=100)

    kinds = [WitnessedDQN, *[DQN] * (len(env.agents) - 1)]  # record the first speaker's returns
    return MultiAgentOffPolicyAlgorithm(algorithms=[dqn(kind) for kind in kinds], env=env)


def train(game: Game, steps: int, seed: int) -> Credit:
    """Train with discrete actions, one per candidate answer; epsilon falls linearly during the first half."""
    np.random.seed(seed)  # Tianshou explores with the global generator
    torch.manual_seed(seed)

    def make_env() -> PettingZooEnv:
        return PettingZooEnv(ActionMask(game.choosing(), mask="obs"))

    def explore(epoch: int, step: int) -> None:
        for member in env.agents:
            epsilon = max(FINAL_EPSILON, 1 - 2 * step / steps)
            algorithm.get_algorithm(member).policy.set_eps_inference(epsilon)

    env = make_env()
    algorithm = make_algorithm(env)
    envs = DummyVectorEnv([make_env] * NUM_ENVS)
    envs.seed(seed)
    collector = Collector(algorithm, envs, VectorReplayBuffer(2_000, NUM_ENVS), exploration_noise=True)
    algorithm.run_training(
        OffPolicyTrainerParams(
            training_collector=collector,
            max_epochs=1,
            epoch_num_steps=steps,
            collection_step_num_env_steps=STEPS_PER_ROLLOUT,
            update_step_num_gradient_steps_per_sample=0.125,
            batch_size=128,
            training_fn=explore,
            verbose=False,
            show_progress=False,
        )
    )
    credit: Credit = algorithm.get_algorithm(env.agents[0]).credit
    return credit


ALGORITHMS = {"dqn": Algorithm("CandidateAction, ActionMask", train)}

if __name__ == "__main__":
    sys.exit(main("tianshou", ALGORITHMS))
