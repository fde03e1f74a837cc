"""Check that an environment speaks text."""

from __future__ import annotations

from typing import Any

from marft_agents.setting_fields import SettingsError


def refuse_unsuitable(env: Any) -> None:
    """Raise SettingsError unless all spaces of an environment are text; names the first that is not."""
    from gymnasium.spaces import Text

    for agent in env.possible_agents:
        for kind, space in (
            ("observation", env.observation_space(agent)),
            ("action", env.action_space(agent)),
        ):
            if not isinstance(space, Text):
                raise SettingsError(
                    f"the learner plays text: {kind} space of agent {agent!r} is {space}, wanted gymnasium.spaces.Text"
                )
