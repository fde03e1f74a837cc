"""Play an environment with deterministic actions, for conformance checks that compare two transcripts."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from marft_envs.testing.report import AnyAEC, Make, NotApplicable, RuleBrokenError

MAX_TURNS = 10_000
Say = Callable[[str], Any]


def begun(make: Make, seed: int = 1) -> AnyAEC:
    """Return a new environment, reset."""
    env = make()
    env.reset(seed=seed)
    return env


def play(env: AnyAEC, say: Say | None = None) -> Iterator[str]:
    """Yield the agent before each turn of a live one; end when all have ended, without draining.

    Args:
        env: Environment after a reset.
        say: Maps agent to action; None uses the agent's name, or a deterministic action.
    """
    for _ in range(MAX_TURNS):
        agent = env.agent_selection
        if env.terminations[agent] or env.truncations[agent]:
            return
        yield agent
        env.step(plain_action(env, agent) if say is None else say(agent))
    raise RuleBrokenError(f"the game did not end within {MAX_TURNS} turns")


def play_out(env: AnyAEC, say: Say | None = None) -> AnyAEC:
    """Play to the end; return the environment."""
    for _ in play(env, say):
        pass
    return env


def plain_action(env: AnyAEC, agent: str) -> Any:
    """Return a deterministic action: the agent's name, or a sample from a fixed seed."""
    space = env.action_space(agent)
    if isinstance(space, spaces.Text) and space.contains(agent):
        return agent
    drawn = copy.deepcopy(space)
    drawn.seed(0)
    mask = env.action_mask(agent) if hasattr(env, "action_mask") else None
    return drawn.sample(mask if isinstance(space, spaces.Discrete) else None)


def require_text_actions(env: AnyAEC) -> None:
    """Skip a rule about text if the actions are not text.

    Raises:
        NotApplicable: The actions are not text.
    """
    for agent in env.possible_agents:
        if not isinstance(env.action_space(agent), spaces.Text):
            raise NotApplicable(f"the actions of {agent} are no text: {env.action_space(agent)}")


def transcript(env: AnyAEC) -> list[str]:
    """Play to the end; return a hash per turn of all observations, rewards and infos."""
    told = [shown(env) for _ in play(env)]
    return [*told, shown(env)]


def shown(env: AnyAEC) -> str:
    """Return a hash of the current observations, rewards and infos, and of the selected agent."""
    seen = [_plain(env.observe(anyone)) for anyone in env.possible_agents]
    told = {agent: sorted((key, _plain(value)) for key, value in info.items()) for agent, info in env.infos.items()}
    whole = repr((env.agent_selection, seen, sorted(env.rewards.items()), sorted(told.items())))
    return hashlib.sha256(whole.encode("utf-8", "backslashreplace")).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return (value.shape, value.tolist()) if isinstance(value, np.ndarray) else value


def equal(one: Any, other: Any) -> bool:
    """Compare two observations, which may be arrays or hold some."""
    return bool(_plain(one) == _plain(other))
