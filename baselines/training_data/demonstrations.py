"""Turns of a file as demonstrations: token ids of prompt and action, by policy of a team."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from baselines.training_data.turn_file import TRAIN, Example, TurnFileError, read_turns
from marft_agents.learning.supervised import demonstration
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.trajectory import Action
from marft_envs.spaces import TextObservation


def check_agents(path: Path, examples: Iterable[Example], agents: Sequence[str]) -> None:
    """Refuse turns of agents that a team does not have, before any model is loaded.

    Raises:
        TurnFileError: It names them.
    """
    unknown = sorted({example.turn.agent for example in examples} - set(agents))
    if unknown:
        raise TurnFileError(
            f"{path}: found turns of {', '.join(unknown)}, wanted those of the team: {', '.join(agents)}; name its "
            "environment with --env, and its agents with --team"
        )


def demonstrations(path: Path, examples: Iterable[Example], team: LanguageModelTeam) -> dict[str, list[list[Action]]]:
    """Encode turns as the team's own prompts and tokens, by policy and episode.

    Turns of agents that are not trained are left out.

    Raises:
        TurnFileError: An action is longer than the team may generate.
        ContextOverflowError: A prompt does not fit the context window.
    """
    longest = 0
    policy_of = {agent: policy for policy, members in team.policies.items() for agent in members}
    found: dict[str, dict[int, list[Action]]] = {policy: {} for policy in team.policies}
    for example in examples:
        turn = example.turn
        if turn.agent in policy_of:
            seen = TextObservation(messages=turn.messages, fixed_messages=turn.fixed_messages)
            action = demonstration(team, turn.agent, seen, turn.action, ended=turn.ended)
            found[policy_of[turn.agent]].setdefault(example.episode, []).append(action)
            longest = max(longest, len(action.token_ids))
    if longest > team.sampling.max_new_tokens:
        raise TurnFileError(
            f"{path}: the longest action has {longest} tokens with its end token, and max_new_tokens = "
            f"{team.sampling.max_new_tokens}: give --max-new-tokens {longest}, or leave out long episodes"
        )
    return {policy: list(own.values()) for policy, own in found.items()}


def replay_pools(path: Path, team: LanguageModelTeam) -> dict[str, list[Action]]:
    """Return the training turns of a file for `--replay-share`, by policy.

    Raises:
        TurnFileError, ContextOverflowError: See `read_turns` and `demonstrations`.
    """
    examples, _ = read_turns(path)
    check_agents(path, examples, team.agents)
    shown = demonstrations(path, (example for example in examples if example.split == TRAIN), team)
    return {policy: [action for own in episodes for action in own] for policy, episodes in shown.items()}
