"""Names of metrics that concern an agent: `{prefix}/{measure}`, where the prefix is nearly always the agent's id.

Environments name their agents as they like, and some prefixes are taken: an agent `team` would write over the metrics
of the team. Such an agent gets a prefix of its own, `agent_team`.
"""

from __future__ import annotations

TAKEN = ("team", "critic", "seconds", "validation", "validation_before")  # prefixes of metrics that are no agent's
MARK = "agent_"


def metric_prefix(agent: str) -> str:
    """Return the prefix of an agent's metrics (or an adapter's); no two ids have the same one.

    >>> metric_prefix("solver_0"), metric_prefix("team"), metric_prefix("agent_team")
    ('solver_0', 'agent_team', 'agent_agent_team')
    """
    return f"{MARK}{agent}" if _unmarked(agent) in TAKEN else agent


def agent_of(prefix: str) -> str:
    """Return the agent whose metrics have a prefix.

    >>> agent_of("solver_0"), agent_of("agent_team"), agent_of("agent_agent_team")
    ('solver_0', 'team', 'agent_team')
    """
    return prefix.removeprefix(MARK) if _unmarked(prefix) in TAKEN else prefix


def _unmarked(name: str) -> str:
    while name.startswith(MARK):
        name = name.removeprefix(MARK)
    return name
