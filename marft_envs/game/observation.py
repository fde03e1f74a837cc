"""Build an agent's observation: profile, task, own actions, and actions visible under the dependency.

Pure functions of the history of a game. Messages are in chronological order. Actions visible only from the next round
on (delayed edges) therefore stand between the agent's own action and the next round's opening. A conversation only
grows at its end, unless the communication form removes something.
"""

from __future__ import annotations

from collections.abc import Sequence

from marft_envs.communication.action_views import Communication, Utterance
from marft_envs.dependency.base import RoundPlan
from marft_envs.game.state import RoundHistory
from marft_envs.records.turn import Turn
from marft_envs.spaces import Message, TextObservation
from marft_envs.teams.profile import ENVIRONMENT, Profile


def may_see(viewer: str, turn: Turn, plan: RoundPlan, current_round: int) -> bool:
    """Return True if D lets an agent see another's action.

    Args:
        viewer: The observing agent.
        turn: Turn of the other agent.
        plan: Plan of the round of the action.
        current_round: The round in which the agent observes.
    """
    return turn.agent in plan.sees[viewer] or (turn.round < current_round and turn.agent in plan.later[viewer])


def visible_turns(viewer: str, rounds: Sequence[RoundHistory]) -> list[Turn]:
    """Return the others' actions that D lets an agent see now, oldest first."""
    current = len(rounds) - 1
    return [
        turn
        for played in rounds
        for turn in played.turns
        if turn.agent != viewer and may_see(viewer, turn, played.plan, current)
    ]


def view(
    profile: Profile, rounds: Sequence[RoundHistory], communication: Communication, briefing: str = ""
) -> TextObservation:
    """Build the observation of an agent at this point of the game."""
    viewer, current = profile.name, len(rounds) - 1
    carried = None if communication.is_full else _carried(viewer, rounds, communication)
    messages = list(profile.briefed(briefing) if briefing else profile.opening)
    fixed = len(messages) + bool(rounds[0].opening) + (viewer in rounds[0].private)
    for played in rounds:
        if played.opening:
            messages.append(Message("user", played.opening, ENVIRONMENT))
        if viewer in played.private:
            messages.append(Message("user", played.private[viewer], ENVIRONMENT))
        for turn in played.turns:
            if turn.agent == viewer:
                messages.append(Message("assistant", turn.action, viewer))
            elif may_see(viewer, turn, played.plan, current):
                text = turn.action if carried is None else carried[turn.round, turn.agent]
                if text is not None:
                    messages.append(Message("user", text, turn.agent))
    return TextObservation.of(tuple(messages), fixed)


def _carried(
    viewer: str, rounds: Sequence[RoundHistory], communication: Communication
) -> dict[tuple[int, str], str | None]:
    """Return the text that each visible action's edge carries, by (round, agent)."""
    by_author: dict[str, list[Turn]] = {}
    for turn in visible_turns(viewer, rounds):
        by_author.setdefault(turn.agent, []).append(turn)
    carried: dict[tuple[int, str], str | None] = {}
    for author, turns in by_author.items():
        utterances = []
        for turn in turns:
            events = [event for event in rounds[turn.round].events if event.get("agent") == author]
            utterances.append(Utterance(turn.action, tuple(events)))
        texts = communication.carry(author, viewer, utterances)
        carried |= {(turn.round, author): text for turn, text in zip(turns, texts, strict=True)}
    return carried
