"""The whole game as text: as the state for central critics, and rendered for people."""

from __future__ import annotations

from itertools import zip_longest

from marft_envs.game.state import GameState
from marft_envs.spaces import Message, TextObservation
from marft_envs.teams.profile import ENVIRONMENT


def transcript(state: GameState) -> TextObservation:
    """Return the whole conversation without visibility limits."""
    # Private texts carry their receiver, since here everybody's are in one conversation.
    messages = [Message("user", _private_line(agent, text), ENVIRONMENT) for agent, text in state.briefings.items()]
    for played in state.rounds:
        if played.opening.content:
            messages.append(played.opening)
        for agent, message in played.private.items():
            messages.append(Message("user", _private_line(agent, message.content), ENVIRONMENT))
        messages += [played.said[turn.agent] for turn in played.turns]
    return TextObservation.of(tuple(messages))


def picture(name: str, state: GameState, horizon: int) -> str:
    """Render a game as text for people.

    Args:
        name: Id of the environment, for the first line.
        state: State of the game.
        horizon: Number of rounds of the game.
    """
    lines = [f"{name}  task {state.task.id}"]
    # The running round has neither an outcome nor a reward: None.
    for number, (played, outcome, reward) in enumerate(zip_longest(state.rounds, state.outcomes, state.rewards)):
        lines.append(f"--- round {number + 1} of {horizon} ---")
        if played.opening.content:
            lines.append(played.opening.content)
        for agent, message in played.private.items():
            lines.append(_private_line(agent, message.content))
        for turn in played.turns:
            fault = f"  [invalid: {turn.fault}]" if turn.fault else ""
            lines.append(f"<{turn.agent}>{fault} {turn.action}")
        if reward is not None:
            said = "not judged" if outcome is None else "solved" if outcome.success else "not solved"
            lines.append(f"=> {said}, team reward {reward:g}")
    return "\n".join(lines) + "\n"


def _private_line(agent: str, text: str) -> str:
    return f"[to {agent}] {text}"
