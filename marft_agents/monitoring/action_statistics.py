"""Statistics of each agent's actions in an update: diversity, empty and copied actions, lengths."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from marft_agents.metric_names import metric_prefix
from marft_agents.monitoring.tool_statistics import tool_use
from marft_agents.trajectory import Action, Trajectory

FEWEST_ACTIONS = 8  # shares over fewer actions are too noisy and are left out
COPY_TOKENS = 8  # equal texts of fewer tokens are agreement on an answer, not copies


class PlayedAction(NamedTuple):
    """An action with a flag: True if it copies an earlier action of another agent."""

    action: Action
    copied: bool


def behaviour(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Return statistics of the actions in episodes that did not fail.

    Of the team:

    - `team/episodes`: Number of these episodes.
    - `team/return_std`: Standard deviation of their returns.
    - `team/group_return_std`: Largest standard deviation within a group, where groups have several episodes.
    - `team/prompts_shortened`: Share of the prompts that lost tokens to fit the context window.
    - `team/cap_hit_share`: Share of the actions cut by the token limit.

    Of each agent whose actions have tokens:

    - `prompt_tokens_mean`, `prompt_tokens_max`: Tokens per prompt.
    - `tokens_mean`: Tokens per action.
    - `cap_hit_share`: Share of actions cut by the token limit.
    - `distinct_share`: Number of different texts per action.
    - `empty_share`: Share of actions with nothing but white space.
    - `copied_share`: Share of actions of eight tokens or more that equal a visible earlier action of another agent.
    - `same_share`: Share of actions with the most frequent text.

    The last four need at least eight actions. The last one also needs different prompts: an agent with one prompt may
    always give the same answer.

    Of the team and of each agent, where the environment records its games (see `tool_statistics`):

    - `tool_selection`: Share of the tool calls whose tool the task's reference uses; missing where no task states one.
    - `handoff_loops`: Mean number of hand-off loops per episode.

    Args:
        trajectories: Episodes of one update. Of a branch only the turn that is compared counts.
    """
    played = [t for t in trajectories if t.failure is None]
    found: dict[str, float] = {}
    if played:
        groups: dict[int, list[float]] = defaultdict(list)
        for trajectory in played:
            groups[trajectory.group].append(trajectory.team_return)
        found["team/episodes"] = float(len(played))
        found["team/return_std"] = float(np.std([t.team_return for t in played]))
        if len(groups) < len(played):
            found["team/group_return_std"] = float(max(np.std(returns) for returns in groups.values()))
    by_agent: dict[str, list[PlayedAction]] = defaultdict(list)
    for trajectory in played:
        for index, turn in enumerate(trajectory.turns):
            if len(turn.action.token_ids) and trajectory.branch in (None, index):
                text = _plain(turn.action.text)
                copied = len(turn.action.token_ids) >= COPY_TOKENS and text in _heard(trajectory, index)
                by_agent[turn.agent].append(PlayedAction(turn.action, copied))
    if by_agent:
        everyone = [each.action for actions in by_agent.values() for each in actions]
        found["team/prompts_shortened"] = float(np.mean([bool(action.shortened) for action in everyone]))
        found["team/cap_hit_share"] = float(np.mean([not action.stopped for action in everyone]))
    for agent, actions in by_agent.items():
        for name, value in _statistics(actions).items():
            found[f"{metric_prefix(agent)}/{name}"] = value
    return found | _tool_metrics(played)


def _tool_metrics(played: Sequence[Trajectory]) -> dict[str, float]:
    team, agents = tool_use(t for t in played if t.branch is None)
    found: dict[str, float] = {}
    for prefix, use in {"team": team, **{metric_prefix(agent): use for agent, use in agents.items()}}.items():
        if use.episodes:
            found[f"{prefix}/handoff_loops"] = use.loops_per_episode
        if use.selection is not None:
            found[f"{prefix}/tool_selection"] = use.selection
    return found


def _statistics(played: Sequence[PlayedAction]) -> dict[str, float]:
    actions = [each.action for each in played]
    prompts = [len(action.prompt_ids) for action in actions]
    values = {
        "prompt_tokens_mean": float(np.mean(prompts)),
        "prompt_tokens_max": float(max(prompts)),
        "tokens_mean": float(np.mean([len(action.token_ids) for action in actions])),
        "cap_hit_share": float(np.mean([not action.stopped for action in actions])),
    }
    if len(actions) < FEWEST_ACTIONS:
        return values
    texts = Counter(_plain(action.text) for action in actions)
    values["distinct_share"] = len(texts) / len(actions)
    values["empty_share"] = texts[""] / len(actions)
    values["copied_share"] = float(np.mean([each.copied for each in played]))
    if len({action.prompt_ids.tobytes() for action in actions}) > 1:
        values["same_share"] = max(texts.values()) / len(actions)
    return values


def _heard(trajectory: Trajectory, index: int) -> set[str]:
    """Return the texts of other agents before a turn: the visible ones if the game recorded visibility, else all."""
    agent = trajectory.turns[index].agent
    visible = None
    if trajectory.game is not None:
        visible = {(place[0], place[1]) for place in trajectory.game["turns"][index]["visible"]}
    return {
        _plain(turn.action.text)
        for turn in trajectory.turns[:index]
        if turn.agent != agent and (visible is None or (turn.round, turn.agent) in visible)
    }


def _plain(text: str) -> str:
    return " ".join(text.split())
