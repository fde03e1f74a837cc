"""RLlib PPO: one policy per agent on the AEC game, through RLlib's `PettingZooEnv`.

RLlib adds the reward after the last speaker to the last transition of each agent. Each agent has only one transition
per game here, so the return of a speaker's transition is the team reward.

    python -m baselines.third_party.rllib_ppo
"""

from __future__ import annotations

import sys
from typing import Any

import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.wrappers.pettingzoo_env import PettingZooEnv
from ray.tune.registry import register_env

from baselines.third_party.credit_check import Credit
from baselines.third_party.games import Game, find_game
from baselines.third_party.training_script import Algorithm, main

BATCH, NUM_ENVS = 512, 32  # many environments share the high cost of each sampler pass


class WitnessedLearner(PPOTorchLearner):  # type: ignore[misc]
    """PPO learner that records the returns of the agent named in `learner_config_dict`; each transition is a game."""

    def build(self) -> None:
        """Build the learner with an empty record of returns."""
        super().build()
        self.credit = Credit()

    def compute_loss_for_module(self, *, module_id: str, config: Any, batch: Any, fwd_out: Any) -> Any:
        """Record the returns of a mini-batch, then compute its loss."""
        if module_id == config.learner_config_dict["first"]:
            real = batch["loss_mask"]  # False at the step that RLlib appends to each episode
            self.credit.add(batch["value_targets"][real], batch["rewards"][real], [True] * int(real.sum()))
        return super().compute_loss_for_module(module_id=module_id, config=config, batch=batch, fwd_out=fwd_out)


def settings(game: Game, seed: int) -> PPOConfig:
    """Return the configuration of PPO in this process, with a small network per agent."""
    agents = game.make().possible_agents
    return (
        PPOConfig()
        .environment("marft", env_config={"game": game.name})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=NUM_ENVS)
        .learners(num_learners=0, learner_class=WitnessedLearner, learner_config_dict={"first": agents[0]})
        .multi_agent(policies=set(agents), policy_mapping_fn=lambda agent, episode, **_: agent)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64], vf_share_layers=False))
        .training(
            lr=1e-3,
            train_batch_size=BATCH,
            minibatch_size=64,
            num_epochs=8,
            use_kl_loss=False,
            entropy_coeff=0.01,
        )
        .debugging(seed=seed, log_level="ERROR")
    )


def train(game: Game, steps: int, seed: int) -> Credit:
    """Train with discrete actions, one per candidate answer."""
    ray.init("local", include_dashboard=False, log_to_driver=False, num_cpus=1)
    register_env("marft", lambda config: PettingZooEnv(find_game(config["game"]).choosing()))
    algorithm = settings(game, seed).build_algo()
    for _ in range(0, steps, BATCH):
        algorithm.train()
    credit: Credit = algorithm.learner_group._learner.credit
    algorithm.stop()
    ray.shutdown()
    return credit


ALGORITHMS = {"ppo": Algorithm("CandidateAction", train)}

if __name__ == "__main__":
    sys.exit(main("ray", ALGORITHMS))
