"""Metric names of agents: `{prefix}/{measure}`, where the prefix is nearly always the agent's id.

Environments choose the ids of their agents, and some prefixes are reserved. An agent `team` would overwrite the
metrics of the team, so it gets the prefix `agent_team`.
"""

from __future__ import annotations

from collections.abc import Mapping

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

AGENT = {
    "entropy": "mean over tokens, nats",
    "kl": "k3 estimate of KL(old || new), mean over decisions, nats",
    "kl_stopped": "1 if early stopping on KL ended the passes",
    "kl_reference": "mean KL to the base without adapter, nats per token; with a KL penalty",
    "nll": "mean negative log-likelihood over the tokens of successful actions, with `positive_nll`; in supervised "
    "fine-tuning over the tokens of the step",
    "replay_nll": "mean negative log-likelihood over the tokens of replayed actions; with `replay_share`",
    "token_accuracy": "share of the tokens of the step that are the most likely ones; in supervised fine-tuning",
    "held_out_nll": "`nll` on held-out turns after an epoch of supervised fine-tuning",
    "held_out_token_accuracy": "`token_accuracy` on held-out turns after an epoch of supervised fine-tuning",
    "held_out_before_nll": "`held_out_nll` before the first step, on the first line",
    "held_out_before_token_accuracy": "`held_out_token_accuracy` before the first step, on the first line",
    "clip_share": "share of decisions whose clip is active",
    "ratio_max": "largest importance ratio of a decision",
    "ratio_min": "smallest importance ratio of a decision",
    "compounded_ratio_max": "largest product of the ratios of the agents updated before, which multiplies an "
    "advantage; with `compounding happo` or `bounded`",
    "first_pass_log_ratio_max": "largest |log ratio| before the first step; 0 but for float error",
    "grad_norm": "mean gradient norm before clipping",
    "importance": "mean importance weight, if another engine sampled",
    "importance_capped": "share of these weights that reached the cap, if another engine sampled",
    "advantage_mean": "mean advantage before centring and scaling",
    "advantage_std": "standard deviation of these advantages",
    "advantage_min": "smallest of these advantages",
    "advantage_max": "largest of these advantages",
    "advantage_zero_share": "share of these advantages that are zero",
    "return_mean": "mean of the critic's targets",
    "return_std": "standard deviation of the critic's targets",
    "explained_variance": "share of the variance of the targets that the values explain",
    "tokens_mean": "tokens per action",
    "cap_hit_share": "share of actions that the token limit cut",
    "prompt_tokens_mean": "mean tokens per prompt",
    "prompt_tokens_max": "tokens of the longest prompt",
    "distinct_share": "different texts per action; from eight actions on",
    "empty_share": "share of actions with nothing but white space; from eight actions on",
    "copied_share": "share of actions of eight tokens or more that equal a visible earlier action of another agent; "
    "from eight actions on",
    "same_share": "share of actions with the most frequent text; from eight actions on, if prompts differ",
    "alarm_explosion": "1 while the alarm's condition holds",
    "alarm_collapse": "1 while the alarm's condition holds",
    "alarm_lazy": "1 while the alarm's condition holds",
    "alarm_length": "1 while the alarm's condition holds",
}
TEAM = {
    "success": "share of episodes solved, of those that did not fail",
    "return": "mean undiscounted team return per episode",
    "term_NAME": "mean of a term of the team reward before weighting",
    "invalid": "mean number of rounds per episode without a readable answer",
    "turns": "mean turns per episode",
    "tokens": "tokens sampled in the first prompt groups",
    "truncated": "share of episodes that a limit ended",
    "failed": "share of episodes that failed for reasons outside of the agents",
    "episodes": "episodes that did not fail",
    "return_std": "standard deviation of their returns",
    "group_return_std": "largest standard deviation within a prompt group, if groups have several episodes",
    "cap_hit_share": "share of actions that the token limit cut",
    "prompts_shortened": "share of prompts that lost tokens to fit the context window",
    "prompt_cache_hits": "share of prompt tokens whose keys and values were kept from earlier turns; not with "
    "`--sampler` or `--max-staleness`",
    "informative_groups": "share of prompt groups whose outcomes differ",
    "draws": "prompt groups played, those of dynamic sampling included",
    "branches": "branches played",
    "branches_failed": "branches that failed or did not replay",
    "extra_tokens": "tokens sampled in further prompt groups and branches, without replayed ones",
    "alarm_stall": "1 while no return differs",
    "alarm_context": "1 while too many prompts are shortened",
    "rollbacks": "rollbacks so far; in an update that was rolled back",
    "staleness_mean": "mean number of updates from playing a prompt group to training on it, with `--max-staleness`",
    "staleness_max": "the largest of these numbers",
    "episodes_dropped": "episodes dropped since they were older than `--max-staleness`",
}
VALIDATION = {
    "success": "share of held-out tasks solved",
    "low": "lower end of its 95 % Wilson interval",
    "high": "upper end of the interval",
    "return": "mean undiscounted team return per episode",
    "term_NAME": "mean of a term of the team reward before weighting",
    "tokens": "mean sampled tokens per episode",
    "episodes": "episodes played",
    "failed": "episodes that failed for reasons outside of the agents",
}
TOOLS = {
    "tool_selection": "share of the choices of tools that were expected, where the task says which are",
    "handoff_loops": "mean number of hand-off loops per episode",
}
METRICS: Mapping[str, tuple[str, Mapping[str, str]]] = {  # prefix -> about its metrics, content of each
    "AGENT": ("Of each agent; if agents share an adapter, of the adapter.", AGENT | TOOLS | LEDGER),
    "team": ("Of the team.", TEAM | TOOLS | TEAM_LEDGER),
    "critic": (
        "Of the critic, for algorithms that have one.",
        {
            "loss": "mean loss of its passes",
            "explained_variance": "share of the variance of the targets that the values explain, over all agents",
            "value_mean": "mean value before the update",
        },
    ),
    "validation": ("Of held-out tasks after the update, with `--validate-every`.", VALIDATION | TEAM_LEDGER),
    "validation_before": ("The same before the first update, on the first line.", VALIDATION | TEAM_LEDGER),
    "seconds": (
        "Durations in seconds.",
        {
            "rollout": "playing the episodes of the update",
            "generation": "policies answering",
            "environment": "steps of the environments, added up over games",
            "update": "the learner's update",
            "validation": "the validation after the update",
            "validation_before": "the validation before the first update",
        },
    ),
    "": (
        "Of the run.",
        {"update": "number of the update, from 0", TOKENS_TOTAL: "tokens sampled for training since the run began"},
    ),
}

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
