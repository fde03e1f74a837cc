"""TorchRL MAPPO and IPPO: separate networks per agent, acting through `TurnParallel`.

The mask in the infos leaves an idle agent only the no-op. With `MaskedCategorical` such turns have no policy gradient.
MAPPO's critic reads all observations, IPPO's only the agent's own.

    python -m baselines.third_party.torchrl_ppo --algorithm ippo
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import torch
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector
from torchrl.envs import PettingZooWrapper
from torchrl.modules import MaskedCategorical, MultiAgentMLP, ProbabilisticActor
from torchrl.objectives.multiagent import IPPOLoss, MAPPOLoss

from baselines.third_party.credit_check import Credit
from baselines.third_party.games import Game
from baselines.third_party.training_script import Algorithm, main
from marft_envs.wrappers import RenamedAgents, TurnParallel

FRAMES_PER_BATCH, EPOCHS, MINIBATCHES, LEARNING_RATE = 512, 8, 8, 1e-3


def make_env(game: Game) -> Any:
    """Make the game; agents whose names differ only in the number form one group with a shared agent dimension."""
    env = TurnParallel(RenamedAgents(game.choosing()), noop=True, mask="info")
    return PettingZooWrapper(env, use_mask=False, categorical_actions=True)


def make_loss(env: Any, *, centralized: bool) -> Any:
    """Build the loss module that holds actor and critic; the actor is `loss.actor_network`."""
    spec, agents = env.observation_spec["agent"], len(env.group_map["agent"])
    network = partial(
        MultiAgentMLP,
        n_agent_inputs=spec["observation"].shape[-1],
        n_agents=agents,
        share_params=False,
        depth=1,
        num_cells=64,
    )
    num_actions = spec["action_mask"].shape[-1]
    actor = ProbabilisticActor(
        TensorDictModule(
            network(n_agent_outputs=num_actions, centralized=False), [("agent", "observation")], [("agent", "logits")]
        ),
        in_keys={"logits": ("agent", "logits"), "mask": ("agent", "action_mask")},
        out_keys=[("agent", "action")],
        distribution_class=MaskedCategorical,
        return_log_prob=True,
    )
    critic = TensorDictModule(
        network(n_agent_outputs=1, centralized=centralized), [("agent", "observation")], [("agent", "state_value")]
    )
    loss = (MAPPOLoss if centralized else IPPOLoss)(actor, critic, clip_epsilon=0.2, entropy_coeff=0.01)
    loss.set_keys(
        **{key: ("agent", key) for key in ("action", "reward", "done", "terminated", "advantage", "value_target")},
        value=("agent", "state_value"),
        sample_log_prob=("agent", "action_log_prob"),
    )
    loss.make_value_estimator(gamma=0.99, lmbda=0.95)
    return loss


def train(game: Game, steps: int, seed: int, *, centralized: bool) -> Credit:
    """Train MAPPO if the critic is centralized, else IPPO; discrete actions, one per candidate answer."""
    torch.manual_seed(seed)
    env = make_env(game)
    env.set_seed(seed)
    loss, credit = make_loss(env, centralized=centralized), Credit()
    optimizer = torch.optim.Adam(loss.parameters(), LEARNING_RATE)
    collector = Collector(env, loss.actor_network, frames_per_batch=FRAMES_PER_BATCH, total_frames=steps)
    for data in collector:
        with torch.no_grad():
            loss.value_estimator(data, params=loss.critic_network_params)
        speaker, after = data["agent"][:, 0], data["next", "agent"][:, 0]
        credit.add(speaker["value_target"], after["reward"], after["done"])
        for _ in range(EPOCHS):
            for batch in data[torch.randperm(len(data))].chunk(MINIBATCHES):
                losses = loss(batch)
                sum(losses[key] for key in ("loss_objective", "loss_critic", "loss_entropy")).backward()
                torch.nn.utils.clip_grad_norm_(loss.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        collector.update_policy_weights_()
    collector.shutdown()
    return credit


_WRAPPER = "CandidateAction, RenamedAgents, TurnParallel"
ALGORITHMS = {
    "mappo": Algorithm(_WRAPPER, partial(train, centralized=True)),
    "ippo": Algorithm(_WRAPPER, partial(train, centralized=False)),
}

if __name__ == "__main__":
    sys.exit(main("torchrl", ALGORITHMS))
