"""Metric names of agents: `{prefix}/{measure}`, where the prefix is nearly always the agent's id.

Environments choose the ids of their agents, and some prefixes are reserved. An agent `team` would overwrite the
metrics of the team, so it gets the prefix `agent_team`.
"""

from __future__ import annotations

# Measures of the ledger (`monitoring.cost_ledger`). They count all episodes played for the update: failed ones, further
# prompt groups and branches too. A measure that nothing counted is missing; 0 means zero.
LEDGER = {
    "turns_sum": "actions generated",
    "prompt_tokens_sum": "tokens of all prompts",
    "output_tokens_sum": "tokens sampled, end tokens included",
    "ideal_cache_tokens_sum": "tokens that an ideal KV cache computes: each distinct prefix of an episode once, and "
    "all outputs",
    "tool_calls_sum": "tool calls, if the environment records them; those of failed episodes are not recorded",
    "tool_failures_sum": "tool calls whose status is not `ok`",
}
TEAM_LEDGER = LEDGER | {
    "episodes_sum": "episodes played",
    "episodes_failed_sum": "episodes that failed for reasons outside of the agents",
    "critical_path_tokens_sum": "output tokens that parallel execution must generate one after the other: the longest "
    "action of each layer, summed over layers, rounds and episodes",
    "judge_calls_sum": "rounds that the task judged, if the environment records them; not those of failed episodes",
}
TOKENS_TOTAL = "tokens_total"  # tokens sampled for training since the run began; the only metric without a prefix

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
