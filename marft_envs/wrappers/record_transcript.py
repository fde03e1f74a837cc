"""Recorder of finished episodes as JSON Lines, to be read with `marft_envs.records.files.read_episodes`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pettingzoo.utils.wrappers import BaseWrapper

from marft_envs.environment_capabilities import recording_game
from marft_envs.game.episode import Episode
from marft_envs.game.turn import Turn
from marft_envs.wrappers.base import AnyAEC
from marft_envs.wrappers.episode_end import ending, is_over, team_reward


class RecordTranscript(BaseWrapper[str, Any, Any]):
    """Wrapper that leaves the game unchanged and appends a line to a file with each episode that ends.

    A Flex-MG writes its own record, which replays. For another game the record holds observations and actions, each in
    a round 0, and one reward: the sum of the team reward. Apply the wrapper directly to such a game, where actions are
    text.

    Args:
        env: An AEC environment with text actions.
        path: Path that ends with .jsonl; created with its folder, and appended to if it exists.

    Raises:
        ValueError: Another ending.
    """

    def __init__(self, env: AnyAEC, path: str | os.PathLike[str]) -> None:
        super().__init__(env)
        self.path = Path(path)
        if self.path.suffix != ".jsonl":
            raise ValueError(f"{self.path}: found the ending {self.path.suffix!r}, wanted .jsonl")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._own = recording_game(env) is None

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a game; arguments as in the game."""
        self.env.reset(seed=seed, options=options)
        self._seed, self._turns, self._reward = seed, list[Turn](), 0.0

    def step(self, action: Any) -> None:
        """Take a turn; after the last one write the episode."""
        agent = self.env.agent_selection
        if not self.env.agents or is_over(self.env, agent):
            self.env.step(action)
            return
        if self._own:
            self._turns.append(Turn(agent, 0, 0, (), str(self.env.observe(agent)), str(action)))
        self.env.step(action)
        self._reward += team_reward(self.env.rewards, len(self.env.possible_agents))
        if any(ending(self.env)):
            with self.path.open("a", encoding="utf-8") as file:
                file.write(self._episode().to_json() + "\n")

    def _episode(self) -> Episode:
        game = recording_game(self.env)
        if game is not None:
            return game.episode()
        terminated, truncated = ending(self.env)
        return Episode(
            env_id=str(self.env.metadata.get("name", type(self.env.unwrapped).__name__)),
            settings={},
            seed=self._seed,
            task_id="",
            team=",".join(self.env.possible_agents),
            turns=tuple(self._turns),
            outcomes=(),
            rewards=(self._reward,),
            terminated=terminated,
            truncated=truncated,
        )
