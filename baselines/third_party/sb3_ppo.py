"""Stable-Baselines3 PPO and sb3-contrib MaskablePPO: one policy plays both agents through `SharedPolicyEnv`.

MaskablePPO generates token by token and reads the masks from `SharedPolicyEnv.action_masks()`.

    python -m baselines.third_party.sb3_ppo --algorithm maskable_ppo
"""

from __future__ import annotations

import sys
from typing import Any

from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

from baselines.third_party.credit_check import Credit
from baselines.third_party.games import Game
from baselines.third_party.training_script import Algorithm, main
from marft_envs.wrappers import SharedPolicyEnv

SETTINGS: dict[str, Any] = {"n_steps": 512, "learning_rate": 1e-3, "ent_coef": 0.01, "device": "cpu"}


class Witness(BaseCallback):  # type: ignore[misc]
    """Callback that records the returns after each rollout."""

    def __init__(self) -> None:
        super().__init__()
        self.credit = Credit()

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        buffer = self.model.rollout_buffer
        first = int(buffer.episode_starts[:, 0].argmax())  # the rollout may start in the middle of a game
        ends = [*buffer.episode_starts[first + 1 :, 0], False]
        self.credit.add(buffer.returns[first:], buffer.rewards[first:], ends)


def train_ppo(game: Game, steps: int, seed: int) -> Credit:
    """Train PPO with discrete actions, one per candidate answer."""
    model = PPO("MlpPolicy", SharedPolicyEnv(game.choosing()), seed=seed, **SETTINGS)
    witness = Witness()
    model.learn(steps, callback=witness)
    return witness.credit


def train_maskable_ppo(game: Game, steps: int, seed: int) -> Credit:
    """Train MaskablePPO with token actions, masked by a grammar."""
    model = MaskablePPO("MlpPolicy", SharedPolicyEnv(game.writing()), seed=seed, **SETTINGS)
    witness = Witness()
    model.learn(steps, callback=witness)
    return witness.credit


ALGORITHMS = {
    "ppo": Algorithm("CandidateAction, SharedPolicyEnv", train_ppo, steps=8_192),
    "maskable_ppo": Algorithm("TokenAction, SharedPolicyEnv", train_maskable_ppo),
}

if __name__ == "__main__":
    sys.exit(main("stable-baselines3", ALGORITHMS))
