"""Metric names of agents: `{prefix}/{measure}`, where the prefix is nearly always the agent's id.

Environments choose the ids of their agents, and some prefixes are reserved. An agent `team` would overwrite the
metrics of the team, so it gets the prefix `agent_team`.
"""

from __future__ import annotations

TAKEN = ("team", "critic", "seconds", "validation", "validation_before")  # prefixes that belong to no agent
MARK = "agent_"


def metric_prefix(agent: str) -> str:
    """Return the metric prefix of an agent or adapter; distinct ids have distinct prefixes.

    >>> metric_prefix("solver_0"), metric_prefix("team"), metric_prefix("agent_team")
    ('solver_0', 'agent_team', 'agent_agent_team')
    """
    return f"{MARK}{agent}" if _unmarked(agent) in TAKEN else agent


def agent_of(prefix: str) -> str:
    """Return the agent id that belongs to a metric prefix; the inverse of `metric_prefix`.

    >>> agent_of("solver_0"), agent_of("agent_team"), agent_of("agent_agent_team")
    ('solver_0', 'team', 'agent_team')
    """
    return prefix.removeprefix(MARK) if _unmarked(prefix) in TAKEN else prefix


def _unmarked(name: str) -> str:
    while name.startswith(MARK):
        name = name.removeprefix(MARK)
    return name
