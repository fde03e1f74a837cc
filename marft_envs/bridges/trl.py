"""One agent of a game as an environment of TRL (1.16), to train it with `GRPOTrainer(environment_factory=...)`.

TRL's models act by calling tools, so the agent's turn is the tool `say`. Text outside of a call is ignored. `reset`
returns the first observation, which TRL appends to the prompt; the tool returns the later ones. All rollouts of a
group must have the same start: the rows of the data set give the seed. The interface is experimental in TRL, and may
change.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from marft_envs.bridges.single_agent import GameFailedError, Make, Partners, SingleAgentGame, chat, maker, news
from marft_envs.environment_capabilities import AnyAEC

REQUIREMENT = "trl>=1.16,<1.17"  # to train with it; not imported here
HOW_TO_ACT = "Take your turn by calling the tool `say`; nothing else that you write is heard."
OVER = "The game is over."


def to_trl_environment(
    env_id_or_make: Make, agent: str, partners: Partners | None = None, **kwargs: Any
) -> Callable[[], TrlEnvironment]:
    """Return an `environment_factory` for TRL.

    Args:
        env_id_or_make: An id such as `marft/math_duo-v0`, or a function that makes an AEC environment.
        agent: Name of the agent that is trained.
        partners: Policies of the other agents: functions of their observations.
        **kwargs: Keywords for the environment.

    Raises:
        AgentAssignmentError: No such agent, or another agent has no partner.

    Examples:
        >>> make_env = to_trl_environment("marft/math_duo-v0", "actor_0", {"reasoner_0": lambda seen: "It is 4."})
        >>> "reasoner_0: It is 4." in make_env().reset(seed=0)
        True
    """
    make_env = maker(env_id_or_make, kwargs)
    SingleAgentGame(make_env, agent, partners).close()  # report errors now, not during a run
    return partial(TrlEnvironment, make_env, agent, partners)


class TrlEnvironment:
    """One agent; the trainer makes one per parallel rollout and resets them. Public methods are tools."""

    def __init__(self, make_env: Callable[[], AnyAEC], agent: str, partners: Partners | None) -> None:
        self._game = SingleAgentGame(make_env, agent, partners)
        self._seen: Any = None
        self._failed = False

    def reset(self, **row: Any) -> str:
        """Start a game and return the first observation; TRL appends it to the last message of the prompt.

        Args:
            **row: Row of the data set: `seed`, and optionally `task_id` or `index`; other columns are ignored.

        Raises:
            ValueError: The row has no seed.
        """
        if row.get("seed") is None:
            raise ValueError("the data set needs a column 'seed': all rollouts of a group must start alike")
        options = {key: row[key] for key in ("task_id", "index") if row.get(key) is not None}
        self._failed = False
        try:
            self._seen = self._game.begin(int(row["seed"]), options)
        except GameFailedError as error:
            self._failed, self._seen = True, None
            return str(error)
        return OVER if self._seen is None else f"{news((), chat(self._seen))}\n\n{HOW_TO_ACT}"

    def say(self, text: str) -> str:
        """Take your turn in the game.

        Args:
            text: What you say: the others and the judge read exactly this.

        Returns:
            What happens until your next turn.
        """
        if self._seen is None:
            return OVER
        before, self._seen = self._seen, None
        try:
            self._seen = self._game.play(text)
        except GameFailedError:
            self._failed = True
            raise
        return OVER if self._seen is None else news(chat(before), chat(self._seen))

    def get_reward(self) -> float | None:
        """Return the agent's reward: 0.0 if it stopped playing, None (not computed) if the game broke."""
        return None if self._failed else self._game.reward
