"""One running game of any PettingZoo AEC environment; exceptions of the environment become the game's failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from typing import Any, Protocol, TypeVar

from marft_common.user_code import user_line

_T = TypeVar("_T")


class AEC(Protocol):
    """The part of PettingZoo's `AECEnv` that games use; its documentation says what each does.

    Agents are strings. Those that died stay in `agents` until their last step, `step(None)`.
    """

    agents: list[Any]
    agent_selection: Any
    rewards: dict[Any, float]
    terminations: dict[Any, bool]
    truncations: dict[Any, bool]
    infos: dict[Any, dict[str, Any]]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None: ...  # noqa: D102
    def observe(self, agent: Any) -> Any: ...  # noqa: D102
    def step(self, action: Any) -> None: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


class EndlessGameError(RuntimeError):
    """A game that did not end within its turns, or whose dead agents never leave."""


class RunningGame:
    """One episode in an environment; its methods may run in any thread, but only one at a time.

    An exception of the environment becomes the game's failure: a record with a cause, not a crash of the run. An
    environment that failed must not be used again.

    Args:
        env: The environment; nothing else uses it meanwhile.

    Attributes:
        failure: Cause if the game cannot continue; None if it can.
        over: True when no further action is needed.
        agent: Agent that acts next; of a game that is over, the last one that was to act.
        turns: Number of actions taken.
        rewards: Sum over the episode, by agent; the last steps of dead agents pay nothing.
        cut_off: Agents that the last action truncated, unless they also terminated.
    """

    def __init__(self, env: AEC) -> None:
        self.env = env
        self.failure: str | None = None
        self.over = False
        self.agent = ""
        self.turns = 0
        self.rewards: dict[str, float] = {}
        self.cut_off: list[str] = []

    def reset(self, seed: int, options: Mapping[str, Any] | None) -> None:
        """Begin the episode."""
        self.attempt("reset", self._reset, seed, options)
        self._pass_over_dead()

    def step(self, action: Any) -> None:
        """Take the turn of the agent that acts next."""
        self.attempt(f"step of {self.agent}", self._step, action)
        self._pass_over_dead()

    def attempt(self, doing: str, function: Callable[..., _T], *args: Any) -> _T | None:
        """Return what a function of the environment returns; if it raises, the game fails and None is returned.

        Args:
            doing: What is attempted, for the cause of the failure.
            function: Function to call.
            *args: Arguments of the function.
        """
        try:
            return function(*args)
        except Exception as error:
            where = user_line(error)
            self.fail(f"{doing}: {type(error).__name__}: {error}" + (f" ({where})" if where else ""))
            return None

    def fail(self, cause: str) -> None:
        """End the game with a failure."""
        self.failure = cause.encode(errors="backslashreplace").decode()  # records are UTF-8
        self.over = True

    def close(self) -> None:
        """Close the environment; exceptions of one that failed are suppressed."""
        with nullcontext() if self.failure is None else suppress(Exception):
            self.env.close()

    def _reset(self, seed: int, options: Mapping[str, Any] | None) -> None:
        """Reset the environment; subclasses record more."""
        self.env.reset(seed=seed, options=None if options is None else dict(options))

    def _step(self, action: Any) -> None:
        """Step the environment and count what followed; subclasses record more."""
        env = self.env
        env.step(action)
        self.turns += 1
        for paid, reward in env.rewards.items():
            self.rewards[paid] = self.rewards.get(paid, 0.0) + float(reward)
        terminations, truncations = env.terminations, env.truncations
        self.cut_off = [agent for agent in env.agents if truncations[agent] and not terminations[agent]]

    def _pass_over_dead(self) -> None:
        """Step dead agents until a living agent must act or no agent is left."""
        if not self.over:
            self.attempt("who acts next", self._find_living)

    def _find_living(self) -> None:
        env, last_steps = self.env, 0
        most = 10 * len(env.agents)  # one each should be enough; some environments need more
        while env.agents:
            agent = env.agent_selection
            if not (env.terminations[agent] or env.truncations[agent]):
                self.agent = agent
                return
            if last_steps == most:
                raise EndlessGameError(
                    f"agent {agent!r} is dead and stays in env.agents = {env.agents}: step(None) has to take it out"
                )
            last_steps += 1
            self.attempt(f"last step of {agent}", env.step, None)
            if self.over:
                return
        self.over = True
