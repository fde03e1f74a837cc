"""Prompt groups of an update from a function that plays episodes."""

from __future__ import annotations

from marft_agents.rollouts import prompt_groups


def gather(play, update, grouping):
    """Return the experience of an update; `play` returns the trajectories of episodes in order."""
    return prompt_groups.gather(lambda numbers: prompt_groups.play_groups(play, numbers, grouping), update, grouping)
