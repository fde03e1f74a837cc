"""The algorithms by name: what each fixes of the learner's settings, and what it demands of a team."""

from __future__ import annotations

from dataclasses import dataclass, replace

from marft_agents.settings import LearnerSettings, Level, SettingsError


@dataclass(frozen=True)
class Algorithm:
    """A named member of the family.

    Attributes:
        level: what a decision is.
        single_agent: True if it plays teams of one only.
        description: one line for the help.
    """

    level: Level
    single_agent: bool
    description: str


ALGORITHMS = {
    "marft-a": Algorithm("action", False, "MARFT at action level: PPO over whole actions along the agent chain"),
    "marft-t": Algorithm("token", False, "MARFT at token level: every token is a decision"),
    "ppo-a": Algorithm("action", True, "single-agent PPO over whole actions"),
    "ppo-t": Algorithm("token", True, "single-agent PPO over tokens"),
}


def settings_for(name: str, settings: LearnerSettings, num_agents: int) -> LearnerSettings:
    """Return the settings with what the algorithm fixes.

    Raises:
        SettingsError: unknown name, or a single-agent algorithm with a team.
    """
    if name not in ALGORITHMS:
        raise SettingsError(f"unknown algorithm {name!r}; there are {', '.join(ALGORITHMS)}")
    algorithm = ALGORITHMS[name]
    if algorithm.single_agent and num_agents != 1:
        multi = next(n for n, a in ALGORITHMS.items() if a.level == algorithm.level and not a.single_agent)
        raise SettingsError(f"{name} trains one agent, the team has {num_agents}: use {multi} or a solo environment")
    return replace(settings, level=algorithm.level)
