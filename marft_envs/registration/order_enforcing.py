"""PettingZoo's `OrderEnforcingWrapper` with short ways to the attributes that every turn reads.

PettingZoo's wrapper looks each of them up by name through two calls of `__getattr__`, fifteen times a turn. This took
nearly as long as the game itself. What is checked, and the errors, are the same.
"""

from __future__ import annotations

from typing import Any

from pettingzoo.utils.wrappers import OrderEnforcingWrapper


def _after_reset(name: str) -> Any:
    def get(self: OrderEnforced) -> Any:
        if self._has_reset:
            return getattr(self.env, name)
        raise AttributeError(f"{name} cannot be accessed before reset")

    return property(get, doc=f"`{name}` of the game, from the first reset on.")


class OrderEnforced(OrderEnforcingWrapper[str, Any, Any]):
    """An AEC game that may not be played before its first reset, or without a step in each turn of `agent_iter`.

    Args:
        env: An AEC environment.
    """

    agents = _after_reset("agents")
    agent_selection = _after_reset("agent_selection")
    rewards = _after_reset("rewards")
    terminations = _after_reset("terminations")
    truncations = _after_reset("truncations")
    infos = _after_reset("infos")

    def step(self, action: Any) -> None:
        """Take the turn of `agent_selection`; before a reset an error, after the end a warning."""
        if self._has_reset and self.env.agents:
            self._has_updated = True
            self.env.step(action)
        else:
            super().step(action)

    def last(self, observe: bool = True) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return observation, cumulative reward, terminated, truncated and infos of `agent_selection`."""
        return self.env.last(observe) if self._has_reset else super().last(observe)

    def __str__(self) -> str:
        return str(self.env)
