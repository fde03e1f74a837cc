"""Build an agent's observation: profile, task, own actions, and actions visible under the dependency.

Pure functions of the history of a game. Messages are in chronological order. Actions visible only from the next round
on (delayed edges) therefore stand between the agent's own action and the next round's opening. A conversation only
grows at its end, unless the communication form, a window of rounds or a compaction removes something.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from marft_envs.communication.action_views import Communication, Utterance
from marft_envs.dependency.base import RoundPlan
from marft_envs.game.state import RoundHistory
from marft_envs.records.turn import Turn
from marft_envs.spaces import Message, TextObservation
from marft_envs.teams.profile import ENVIRONMENT, Profile


class Window(NamedTuple):
    """Rounds that observations show; of the others only the problem, which opened the game, stays.

    Attributes:
        rounds: Number of the most recent rounds, the running one included; None shows all.
        compaction: Agent whose action replaces all rounds before its own, for itself and for those that see it; empty
            if there is none.
    """

    rounds: int | None = None
    compaction: str = ""

    def first(self, viewer: str, rounds: Sequence[RoundHistory]) -> int:
        """Return the first round that an agent is shown."""
        current = len(rounds) - 1
        first = 0 if self.rounds is None else max(0, len(rounds) - self.rounds)
        if self.compaction:
            for number in range(current, first, -1):
                for turn in rounds[number].turns:
                    mine = turn.agent == viewer
                    if turn.agent == self.compaction and (mine or may_see(viewer, turn, rounds[number].plan, current)):
                        return number
        return first


ALL_ROUNDS = Window()


def may_see(viewer: str, turn: Turn, plan: RoundPlan, current_round: int) -> bool:
    """Return True if D lets an agent see another's action.

    Args:
        viewer: The observing agent.
        turn: Turn of the other agent.
        plan: Plan of the round of the action.
        current_round: The round in which the agent observes.
    """
    return turn.agent in plan.sees[viewer] or (turn.round < current_round and turn.agent in plan.later[viewer])


def visible_turns(viewer: str, rounds: Sequence[RoundHistory], window: Window = ALL_ROUNDS) -> list[Turn]:
    """Return the others' actions that an agent sees now, oldest first: those that D allows within the window."""
    current = len(rounds) - 1
    return [
        turn
        for played in rounds[window.first(viewer, rounds) :]
        for turn in played.turns
        if turn.agent != viewer and may_see(viewer, turn, played.plan, current)
    ]


def view(
    profile: Profile,
    rounds: Sequence[RoundHistory],
    communication: Communication,
    briefing: str = "",
    window: Window = ALL_ROUNDS,
) -> TextObservation:
    """Build the observation of an agent at this point of the game."""
    viewer, current = profile.name, len(rounds) - 1
    carried = None if communication.is_full else _carried(viewer, rounds, communication, window)
    messages = list(profile.briefed(briefing) if briefing else profile.opening)
    first = window.first(viewer, rounds)
    fixed = len(messages) + bool(rounds[0].opening) + (first == 0 and viewer in rounds[0].private)
    for number, played in enumerate(rounds):
        if played.opening and (number >= first or number == 0):
            messages.append(Message("user", played.opening, ENVIRONMENT))
        if number < first:
            continue
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
    viewer: str, rounds: Sequence[RoundHistory], communication: Communication, window: Window
) -> dict[tuple[int, str], str | None]:
    """Return the text that each visible action's edge carries, by (round, agent)."""
    by_author: dict[str, list[Turn]] = {}
    for turn in visible_turns(viewer, rounds, window):
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
