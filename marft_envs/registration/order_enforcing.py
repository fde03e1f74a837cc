"""PettingZoo's `OrderEnforcingWrapper` with short ways to the attributes that every turn reads.

PettingZoo's wrapper looks each of them up by name through two calls of `__getattr__`, fifteen times a turn. This took
nearly as long as the game itself. What is checked, and the errors, are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pettingzoo.utils.env import AECIterable
from pettingzoo.utils.env_logger import EnvLogger
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from marft_envs.environment_capabilities import AnyAEC


def _after_reset(name: str) -> Any:
    def get(self: OrderEnforced) -> Any:
        if self._has_reset:
            return getattr(self.env, name)
        raise AttributeError(f"{name} cannot be accessed before reset")

    return property(get, doc=f"`{name}` of the game, from the first reset on.")


class Turns(AECIterable[str, Any, Any]):
    """Iterator over the selected agents, until none is left; a turn without a step is an error.

    A generator takes half of the time of PettingZoo's two nested calls of `__next__`.

    Args:
        env: An `OrderEnforced` game.
        max_iter: Most turns of one iteration.
    """

    env: OrderEnforced
    max_iter: int

    def __iter__(self) -> Iterator[str]:  # type: ignore[override]
        wrapper, left = self.env, self.max_iter
        while wrapper.env.agents and left > 0:
            left -= 1
            agent = wrapper.env.agent_selection
            if not wrapper._has_updated:
                raise AssertionError("need to call step() or reset() in a loop over `agent_iter`")
            wrapper._has_updated = False
            yield agent


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

    def __init__(self, env: AnyAEC) -> None:
        super().__init__(env)
        self.metadata = env.metadata

    def step(self, action: Any) -> None:
        """Take the turn of `agent_selection`; before a reset an error, after the end a warning."""
        if self._has_reset and self.env.agents:
            self._has_updated = True
            self.env.step(action)
        else:
            super().step(action)

    def agent_iter(self, max_iter: int = 2**63) -> Turns:  # type: ignore[override]
        """Yield `agent_selection` until all agents have left; a turn without a step is an error."""
        if not self._has_reset:
            EnvLogger.error_agent_iter_before_reset()
        return Turns(self, max_iter)  # type: ignore[no-untyped-call]

    def last(self, observe: bool = True) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return observation, cumulative reward, terminated, truncated and infos of `agent_selection`."""
        return self.env.last(observe) if self._has_reset else super().last(observe)

    def __str__(self) -> str:
        return str(self.env)
