"""Placement of action masks where each RL library expects them.

| Library | Place |
|---|---|
| Tianshou (multi-agent), PettingZoo | `mask="obs"` |
| Tianshou through `SharedPolicyEnv` | `mask="obs", obs_key="obs", mask_key="mask"` |
| RLlib (action masking module) | `mask="obs", obs_key="observations"` |
| TorchRL | `mask="obs"` or `mask="info"` |
| BenchMARL, AgileRL | `mask="info"` |
| sb3-contrib | `SharedPolicyEnv.action_masks()` |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from marft_envs.wrappers.base import AnyAEC, TextView

Mask = NDArray[np.int8]
Where = Literal["obs", "info"] | None


def mask_of(env: Any, agent: str) -> Mask:
    """Return the current mask of an agent of an AEC game: 1 is legal; all are legal without a mask of the game.

    Raises:
        ValueError: Its actions are not `Discrete`.
    """
    space = env.action_space(agent)
    if not isinstance(space, spaces.Discrete):
        raise ValueError(f"the actions of {agent} are {space}: only Discrete ones have a mask; use mask=None")
    hook = getattr(env, "action_mask", None)
    mask: Mask = np.ones(int(space.n), np.int8) if hook is None else hook(agent)
    return mask


@dataclass(frozen=True)
class MaskPlace:
    """Place of a mask.

    Args:
        where: "obs": observations become a dict; "info": beside the other numbers; None: nowhere.
        obs_key: Key of the observation in that dict.
        mask_key: Key of the mask, int8, 1 is legal.

    Raises:
        ValueError: There is no such place.
    """

    where: Where
    obs_key: str = "observation"
    mask_key: str = "action_mask"

    def __post_init__(self) -> None:
        if self.where not in ("obs", "info", None):
            raise ValueError(f"mask: found {self.where!r}, wanted 'obs', 'info' or None")

    def space(self, observation: spaces.Space[Any], actions: spaces.Space[Any]) -> spaces.Space[Any]:
        """Return the space of observations."""
        if self.where is not None and not isinstance(actions, spaces.Discrete):
            raise ValueError(f"the actions are {actions}: only Discrete ones have a mask; use mask=None")
        if self.where != "obs" or not isinstance(actions, spaces.Discrete):
            return observation
        return spaces.Dict({self.obs_key: observation, self.mask_key: spaces.Box(0, 1, (int(actions.n),), np.int8)})

    def observation(self, observation: Any, mask: Mask | None) -> Any:
        """Return the observation, with the mask if that is its place."""
        return observation if self.where != "obs" else {self.obs_key: observation, self.mask_key: mask}

    def info(self, info: dict[str, Any], mask: Mask | None) -> dict[str, Any]:
        """Return the info, with the mask if that is its place."""
        return info if self.where != "info" else info | {self.mask_key: mask}


class ActionMask(TextView):
    """AEC wrapper that puts the masks where a library looks for them; apply it last.

    Args:
        env: An AEC environment with `Discrete` actions.
        mask: Place of the mask: "obs" or "info".
        obs_key: With "obs": the key of the observation.
        mask_key: The key of the mask.

    Examples:
        >>> env = ActionMask(CandidateAction(env, ["yes", "no"]), mask="obs")  # doctest: +SKIP
    """

    def __init__(
        self, env: AnyAEC, mask: Where = "obs", *, obs_key: str = "observation", mask_key: str = "action_mask"
    ) -> None:
        super().__init__(env)
        self.place = MaskPlace(mask, obs_key, mask_key)
        self.observation_spaces = {
            agent: self.place.space(space, self.action_spaces[agent])
            for agent, space in self.observation_spaces.items()
        }

    def observe(self, agent: str) -> Any:
        """Return an agent's observation."""
        seen = self.env.observe(agent)
        return seen if self.place.where != "obs" else self.place.observation(seen, mask_of(self.env, agent))

    def _make_infos(self) -> dict[str, dict[str, Any]]:
        infos = super()._make_infos()
        if self.place.where != "info":
            return infos
        return {agent: self.place.info(info, mask_of(self.env, agent)) for agent, info in infos.items()}
