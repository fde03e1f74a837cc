"""Build an agent's observation: profile, task, own actions, and actions visible under the dependency.

Pure functions of the history of a game. Messages are in chronological order. Actions visible only from the next round
on (delayed edges) therefore stand between the agent's own action and the next round's opening. A conversation only
grows at its end, unless the communication form, a window of rounds or a compaction removes something.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from marft_envs.communication.action_views import Communication, Utterance
from marft_envs.dependency.base import RoundPlan
from marft_envs.game.state import GameState, RoundHistory
from marft_envs.game.turn import Turn
from marft_envs.spaces import Message, TextObservation
from marft_envs.teams.profile import Profile

# Observation, visible actions. A plain tuple: games make one for each agent and turn, a named one takes 0.3 us.
View = tuple[TextObservation, tuple[tuple[int, str], ...]]


OWN_ACTIONS = ("window", "last", "all")


class Window(NamedTuple):
    """Rounds that observations show; of the others only the problem, which opened the game, stays.

    Attributes:
        rounds: Number of the most recent rounds, the running one included; None shows all.
        compaction: Agent whose action replaces all rounds before its own, for itself and for those that see it; empty
            if there is none.
        own: Actions of an agent in rounds that it is not shown, which it sees all the same: "window" none, "last" its
            last one, "all" every one. They stand behind the problem, without the texts that they answer.
    """

    rounds: int | None = None
    compaction: str = ""
    own: str = OWN_ACTIONS[0]

    def first(self, viewer: str, rounds: Sequence[RoundHistory]) -> int:
        """Return the first round that an agent is shown."""
        current = len(rounds) - 1
        first = 0 if self.rounds is None else max(0, len(rounds) - self.rounds)
        if self.compaction:  # the newest one counts: it has replaced those before it too
            for number in range(current, first, -1):
                played, mine = rounds[number], self.compaction == viewer
                if self.compaction in played.said and (
                    mine or self.compaction in authors_seen(viewer, played.plan, is_over=number < current)
                ):
                    return number
        return first

    def earlier(self, viewer: str, rounds: Sequence[RoundHistory]) -> list[Turn]:
        """Return the own actions that an agent is shown of rounds before the first one that it is shown.

        Args:
            viewer: The observing agent.
            rounds: The rounds before that one.
        """
        if self.own == "window":
            return []
        said = [turn for played in rounds for turn in played.turns if turn.agent == viewer]
        return said[-1:] if self.own == "last" else said


ALL_ROUNDS = Window()


def authors_seen(viewer: str, plan: RoundPlan, *, is_over: bool) -> frozenset[str]:
    """Return the agents whose actions of a round D lets another agent see.

    Args:
        viewer: The observing agent.
        plan: Plan of the round.
        is_over: The round is over, so that delayed edges count too.
    """
    return plan.sees_after[viewer] if is_over else plan.sees[viewer]


def visible_turns(viewer: str, rounds: Sequence[RoundHistory], window: Window = ALL_ROUNDS) -> list[Turn]:
    """Return the others' actions that an agent sees now, oldest first: those that D allows within the window."""
    visible: list[Turn] = []
    for number in range(window.first(viewer, rounds), len(rounds)):
        played = rounds[number]
        authors = authors_seen(viewer, played.plan, is_over=number < len(rounds) - 1)
        visible += [turn for turn in played.turns if turn.agent in authors and turn.agent != viewer]
    return visible


def view(
    profile: Profile,
    rounds: Sequence[RoundHistory],
    communication: Communication,
    briefing: str = "",
    window: Window = ALL_ROUNDS,
) -> View:
    """Build the observation of an agent at this point of the game.

    Args:
        profile: Profile of the agent.
        rounds: Rounds so far, the running one last.
        communication: Form of the actions on an edge.
        briefing: Text of this game for the agent's system prompt, such as its tools; empty: none.
        window: Rounds that the observation shows.

    Returns:
        The observation, and the actions of others that D lets the agent see, as (round, agent), oldest first.
    """
    viewer, problem = profile.name, rounds[0].opening
    # With whole actions all agents share the messages of the history; other forms make texts for each edge.
    carried = None if communication.is_full else _carried(viewer, rounds, communication, window)
    messages = list(profile.briefed(briefing) if briefing else profile.opening)
    visible: list[tuple[int, str]] = []
    first = window.first(viewer, rounds)
    # A policy may shorten all but the profile, the problem, and what the problem tells this agent alone.
    fixed = len(messages) + bool(problem.content) + (first == 0 and viewer in rounds[0].private)
    if first > 0 and problem.content:
        messages.append(problem)
    messages += [Message("assistant", turn.action, viewer) for turn in window.earlier(viewer, rounds[:first])]
    running = len(rounds) - 1
    for number in range(first, len(rounds)):
        played = rounds[number]
        if played.opening.content:
            messages.append(played.opening)
        if viewer in played.private:
            messages.append(played.private[viewer])
        # `authors_seen` written out: a call for each round takes 5 % of the time of a view.
        authors = played.plan.sees[viewer] if number == running else played.plan.sees_after[viewer]
        for turn in played.turns:
            author = turn.agent
            if author == viewer:
                messages.append(Message("assistant", turn.action, viewer))
            elif author in authors:
                visible.append((number, author))
                if carried is None:
                    messages.append(played.said[author])
                elif (text := carried[number, author]) is not None:
                    messages.append(Message("user", text, author))
    return TextObservation.of(tuple(messages), fixed), tuple(visible)


class Views:
    """Views of all agents, each kept until something in it changes.

    Args:
        profiles: Profiles of the agents.
        communication: Form of the actions on an edge.
        window: Rounds that observations show.
    """

    _state: GameState
    _kept: dict[str, View]  # Views that are still up to date

    def __init__(self, profiles: Iterable[Profile], communication: Communication, window: Window) -> None:
        self._profiles = {profile.name: profile for profile in profiles}
        self._communication, self._window = communication, window

    def begin_round(self, state: GameState) -> None:
        """Drop all views: a round has begun, with a message to all."""
        self._state = state
        self._kept = {}

    def of(self, agent: str) -> View:
        """Return the view of an agent at this point of the game."""
        if agent not in self._kept:
            profile, state = self._profiles[agent], self._state
            briefing = state.briefings.get(agent, "")
            self._kept[agent] = view(profile, state.rounds, self._communication, briefing, self._window)
        return self._kept[agent]

    def take(self, agent: str, plan: RoundPlan) -> None:
        """Drop the views of an agent that has acted, and of those that see its action."""
        self._kept.pop(agent, None)
        # Delayed edges show the action from the next round on, and `begin_round` drops all views.
        for viewer, seen in plan.sees.items():
            if agent in seen:
                self._kept.pop(viewer, None)


def _carried(
    viewer: str, rounds: Sequence[RoundHistory], communication: Communication, window: Window
) -> dict[tuple[int, str], str | None]:
    """Return the text that each visible action's edge carries, by (round, agent)."""
    # By author, since a form may carry the last action of an agent only, or sum up all of them.
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
