"""The whole game as text: as the state for central critics, and rendered for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from marft_envs.game.state import RoundHistory
from marft_envs.game.task import Outcome
from marft_envs.spaces import Message, TextObservation
from marft_envs.teams.profile import ENVIRONMENT


def transcript(rounds: Sequence[RoundHistory], briefings: Mapping[str, str]) -> TextObservation:
    """Return the whole conversation without visibility limits."""
    messages = [Message("user", _private_line(agent, text), ENVIRONMENT) for agent, text in briefings.items()]
    for played in rounds:
        if played.opening.content:
            messages.append(played.opening)
        for agent, message in played.private.items():
            messages.append(Message("user", _private_line(agent, message.content), ENVIRONMENT))
        messages += [played.said[turn.agent] for turn in played.turns]
    return TextObservation.of(tuple(messages))


def picture(title: str, rounds: Sequence[tuple[RoundHistory, Outcome | None, float | None]], horizon: int) -> str:
    """Render a game as text for people.

    Args:
        title: The first line.
        rounds: Rounds with outcome and team reward; None for the reward of a round that is still being played.
        horizon: Number of rounds of the game.
    """
    lines = [title]
    for number, (played, outcome, reward) in enumerate(rounds):
        lines += [
            f"--- round {number + 1} of {horizon} ---",
            *([played.opening.content] if played.opening.content else []),
        ]
        lines += [_private_line(agent, message.content) for agent, message in played.private.items()]
        for turn in played.turns:
            fault = f"  [invalid: {turn.fault}]" if turn.fault else ""
            lines.append(f"<{turn.agent}>{fault} {turn.action}")
        if reward is not None:
            said = "not judged" if outcome is None else "solved" if outcome.success else "not solved"
            lines.append(f"=> {said}, team reward {reward:g}")
    return "\n".join(lines) + "\n"


def _private_line(agent: str, text: str) -> str:
    return f"[to {agent}] {text}"
