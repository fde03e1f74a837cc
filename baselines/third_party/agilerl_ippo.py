"""AgileRL IPPO: one policy per agent through `TurnParallel`, with our own training loop.

AgileRL's `train_multi_agent_on_policy` clears the done flags of an episode that ends for all agents together before it
stores them. Returns then leak into the next episode. Its update also ignores action masks. Therefore this loop calls
`get_action` and `learn` itself, without masks and without a no-op action.

    python -m baselines.third_party.agilerl_ippo
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from agilerl.algorithms import IPPO

from baselines.third_party.credit_check import Credit
from baselines.third_party.games import Game
from baselines.third_party.training_script import Algorithm, main
from marft_envs.wrappers import TurnParallel

LEARN_STEP = 512


class WitnessedIPPO(IPPO):  # type: ignore[misc]
    """IPPO that exposes the returns of its last update, one tensor per agent."""

    def learn(self, experiences: Any) -> Any:
        """Update all agents and record their returns."""
        self.returns: list[torch.Tensor] = []
        return super().learn(experiences)

    def to_device(self, *experiences: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Record the returns among the experiences of an agent's update."""
        _, _, _, _, returns, _ = experiences
        self.returns.append(returns)
        moved: tuple[torch.Tensor, ...] = super().to_device(*experiences)
        return moved


def make_team(env: TurnParallel) -> WitnessedIPPO:
    """Build the agents; their names differ before the number, so AgileRL gives each agent its own networks."""
    return WitnessedIPPO(
        observation_spaces=[env.observation_space(agent) for agent in env.possible_agents],
        action_spaces=[env.action_space(agent) for agent in env.possible_agents],
        agent_ids=env.possible_agents,
        net_config={"encoder_config": {"hidden_size": [64]}},
        batch_size=128,
        lr=1e-3,
        learn_step=LEARN_STEP,
        update_epochs=8,
        device="cpu",
    )


def train(game: Game, steps: int, seed: int) -> Credit:
    """Train with discrete actions, one per candidate answer."""
    np.random.seed(seed)  # AgileRL shuffles with the global generator
    torch.manual_seed(seed)
    env = TurnParallel(game.choosing())
    team, first, credit = make_team(env), env.possible_agents[0], Credit()
    seen, done = env.reset(seed=seed)[0], False
    for _ in range(0, steps, LEARN_STEP):
        rollout: list[dict[str, list[Any]]] = [{agent: [] for agent in env.possible_agents} for _ in range(6)]
        for _ in range(LEARN_STEP):
            actions, log_probs, _, values = team.get_action(obs=seen)
            turn = {agent: int(action[0]) for agent, action in actions.items()}
            after, rewards, terminations, _, _ = env.step(turn)
            began = dict.fromkeys(seen, np.array([float(done)]))  # 1 if the previous step ended a game
            for agent in seen:
                paid = np.array([rewards[agent]])
                for field, value in zip(rollout, (seen, actions, log_probs, paid, began, values), strict=True):
                    field[agent].append(value if value is paid else value[agent])
            done = all(terminations.values())
            seen = env.reset()[0] if done else after
        team.learn((*rollout, seen, dict.fromkeys(seen, np.array([float(done)]))))
        paid_first, began_first = rollout[3][first], rollout[4][first]
        credit.add(team.returns[0], paid_first, [*began_first[1:], [float(done)]])
    return credit


ALGORITHMS = {"ippo": Algorithm("CandidateAction, TurnParallel", train)}

if __name__ == "__main__":
    sys.exit(main("agilerl", ALGORITHMS))
