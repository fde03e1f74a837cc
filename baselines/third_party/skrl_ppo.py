"""skrl IPPO and MAPPO: custom models that read the action mask from the flattened observation.

skrl has no support for masks. It flattens a dict of mask and observation for the model, and the model applies the mask.
MAPPO's critics read `state()`, the whole conversation.

    python -m baselines.third_party.skrl_ppo --algorithm mappo
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from typing import Any

import torch
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.multi_agents.torch import MultiAgent
from skrl.multi_agents.torch.ippo import IPPO, IPPO_CFG
from skrl.multi_agents.torch.mappo import MAPPO, MAPPO_CFG
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from skrl.utils.spaces.torch import unflatten_tensorized_space

from baselines.third_party.credit_check import Credit
from baselines.third_party.games import Game
from baselines.third_party.training_script import Algorithm, main
from marft_envs.wrappers import TurnParallel

ROLLOUTS = 256


class Actor(CategoricalMixin, Model):  # type: ignore[misc]
    """Policy network with masked logits."""

    def __init__(self, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        CategoricalMixin.__init__(self)
        width = self.observation_space["observation"].shape[0]
        self.net = torch.nn.Sequential(
            torch.nn.Linear(width, 64), torch.nn.Tanh(), torch.nn.Linear(64, self.num_actions)
        )

    def compute(self, inputs: dict[str, Any], role: str) -> tuple[torch.Tensor, dict[str, Any]]:
        """Return the logits [batch, actions]; illegal actions get -1e9."""
        seen = unflatten_tensorized_space(self.observation_space, inputs["observations"])
        return self.net(seen["observation"]).masked_fill(seen["action_mask"] == 0, -1e9), {}


class Critic(DeterministicMixin, Model):  # type: ignore[misc]
    """Value network on the agent's observation (`source` "observations") or on the whole conversation ("states")."""

    def __init__(self, source: str, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.source = source
        width = self.num_states if source == "states" else self.num_observations
        self.net = torch.nn.Sequential(torch.nn.Linear(width, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))

    def compute(self, inputs: dict[str, Any], role: str) -> tuple[torch.Tensor, dict[str, Any]]:
        """Return the values [batch, 1]."""
        return self.net(inputs[self.source]), {}


def settings(config: Any, agents: list[str], folder: str) -> Any:
    """Return the training settings; skrl wants settings that are dicts by agent."""
    empty = ("observation_preprocessor", "state_preprocessor", "value_preprocessor", "learning_rate_scheduler")
    return config(
        rollouts=ROLLOUTS,
        learning_epochs=8,
        mini_batches=4,
        entropy_loss_scale=0.01,
        experiment={"directory": folder, "write_interval": 0, "checkpoint_interval": 0},
        **{f"{key}_kwargs": {agent: {} for agent in agents} for key in empty},
    )


def witness(team: MultiAgent, first: str) -> Credit:
    """Record the returns of an agent after each of its updates."""
    credit, update = Credit(), team.update

    def watched(*, uid: str, **when: int) -> None:
        update(uid=uid, **when)
        if uid == first:
            credit.add(*(team.memories[uid].get_tensor_by_name(name) for name in ("returns", "rewards", "terminated")))

    team.update = watched
    return credit


def train(game: Game, steps: int, seed: int, *, kind: type[MultiAgent], config: type, source: str) -> Credit:
    """Train separate networks per agent with discrete actions, one per candidate answer."""
    set_seed(seed)
    env = wrap_env(TurnParallel(game.choosing(), noop=True, mask="obs"), wrapper="pettingzoo")
    agents = env.possible_agents
    spaces = {
        agent: {
            "observation_space": env.observation_spaces[agent],
            "state_space": env.state_spaces[agent],
            "action_space": env.action_spaces[agent],
            "device": env.device,
        }
        for agent in agents
    }
    models = {agent: {"policy": Actor(**spaces[agent]), "value": Critic(source, **spaces[agent])} for agent in agents}
    with tempfile.TemporaryDirectory() as folder:
        team = kind(
            possible_agents=agents,
            models=models,
            memories={agent: RandomMemory(memory_size=ROLLOUTS, device=env.device) for agent in agents},
            observation_spaces=env.observation_spaces,
            state_spaces=env.state_spaces,
            action_spaces=env.action_spaces,
            device=env.device,
            cfg=settings(config, agents, folder),
        )
        credit = witness(team, agents[0])
        quiet = {"timesteps": steps, "headless": True, "disable_progressbar": True, "close_environment_at_exit": False}
        SequentialTrainer(env=env, agents=team, cfg=quiet).train()
    return credit


_WRAPPER = "CandidateAction, TurnParallel"
ALGORITHMS = {
    "ippo": Algorithm(_WRAPPER, partial(train, kind=IPPO, config=IPPO_CFG, source="observations")),
    "mappo": Algorithm(_WRAPPER, partial(train, kind=MAPPO, config=MAPPO_CFG, source="states")),
}

if __name__ == "__main__":
    sys.exit(main("skrl", ALGORITHMS))
