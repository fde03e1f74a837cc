"""BenchMARL MAPPO: a custom task class around `TurnParallel`, with action masks in the infos.

python -m baselines.third_party.benchmarl_mappo
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from typing import Any

from benchmarl.algorithms import MappoConfig
from benchmarl.environments.common import TaskClass
from benchmarl.experiment import Callback, Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from torchrl.envs import PettingZooWrapper

from baselines.third_party.credit_check import Credit
from baselines.third_party.games import Game, find_game
from baselines.third_party.training_script import Algorithm, main
from marft_envs.wrappers import RenamedAgents, TurnParallel

FRAMES_PER_BATCH = 512


class TextGame(TaskClass):  # type: ignore[misc]
    """BenchMARL task for one of our games; `config["game"]` is its name."""

    def get_env_fun(
        self, num_envs: int, continuous_actions: bool, seed: int | None, device: Any
    ) -> Callable[[], PettingZooWrapper]:
        """Return a function that makes the environment."""

        def make() -> PettingZooWrapper:
            env = TurnParallel(RenamedAgents(find_game(self.config["game"]).choosing()), noop=True, mask="info")
            return PettingZooWrapper(env, use_mask=False, categorical_actions=True, seed=seed, device=device)

        return make

    def supports_continuous_actions(self) -> bool:
        """Return False: actions are discrete candidates."""
        return False

    def supports_discrete_actions(self) -> bool:
        """Return True: actions are discrete candidates."""
        return True

    def max_steps(self, env: Any) -> int:
        """Return an upper bound of the episode length, in steps."""
        return 100

    def has_render(self, env: Any) -> bool:
        """Return False: the games have no pixels."""
        return False

    def group_map(self, env: Any) -> dict[str, list[str]]:
        """Return the agent groups: one group, since the agents' names differ only in the number."""
        groups: dict[str, list[str]] = env.group_map
        return groups

    def observation_spec(self, env: Any) -> Any:
        """Return the spec of the policy's observations."""
        return _only("observation", env)

    def info_spec(self, env: Any) -> Any:
        """Return the spec of the numeric infos."""
        return _only("info", env)

    def action_mask_spec(self, env: Any) -> Any:
        """Return the spec of the action masks."""
        return _only("action_mask", env)

    def state_spec(self, env: Any) -> None:
        """Return None: MAPPO's critic reads all observations instead of a state."""

    def action_spec(self, env: Any) -> Any:
        """Return the spec of the actions."""
        return env.full_action_spec

    @staticmethod
    def env_name() -> str:
        """Return the folder name of the task's configurations; no such files exist."""
        return "marft"


def _only(key: str, env: Any) -> Any:
    spec = env.observation_spec.clone()
    for other in set(spec["agent"].keys()) - {key}:
        del spec["agent", other]
    return spec


class Witness(Callback):  # type: ignore[misc]
    """Callback that reads the returns from the replay buffer after each update."""

    def __init__(self) -> None:
        super().__init__()
        self.credit = Credit()

    def on_train_end(self, training_td: Any, group: str) -> None:
        """Record the games of a rollout; the buffer holds the transitions in time order."""
        buffer = self.experiment.replay_buffers[group][:]
        speaker, after = buffer[group][:, 0], buffer["next", group][:, 0]
        self.credit.add(speaker["value_target"], after["reward"], after["done"])


def settings(steps: int, folder: str) -> ExperimentConfig:
    """Return the experiment settings of a short run on one environment."""
    config = ExperimentConfig.get_from_yaml()
    changes = {
        "share_policy_params": False,
        "prefer_continuous_actions": False,
        "lr": 1e-3,
        "max_n_frames": steps,
        "on_policy_collected_frames_per_batch": FRAMES_PER_BATCH,
        "on_policy_n_envs_per_worker": 1,
        "on_policy_n_minibatch_iters": 8,
        "on_policy_minibatch_size": 128,
        "evaluation": False,
        "render": False,
        "loggers": [],
        "create_json": False,
        "save_folder": folder,
    }
    for name, value in changes.items():
        setattr(config, name, value)
    return config


def train(game: Game, steps: int, seed: int) -> Credit:
    """Train with discrete actions, one per candidate answer."""
    algorithm, model, witness = MappoConfig.get_from_yaml(), MlpConfig.get_from_yaml(), Witness()
    algorithm.entropy_coef = 0.01
    model.num_cells = [64]
    with tempfile.TemporaryDirectory() as folder:
        Experiment(
            task=TextGame(name=game.name.upper(), config={"game": game.name}),
            algorithm_config=algorithm,
            model_config=model,
            critic_model_config=model,
            seed=seed,
            config=settings(steps, folder),
            callbacks=[witness],
        ).run()
    return witness.credit


ALGORITHMS = {"mappo": Algorithm("CandidateAction, RenamedAgents, TurnParallel", train, steps=8_192)}

if __name__ == "__main__":
    sys.exit(main("benchmarl", ALGORITHMS))
