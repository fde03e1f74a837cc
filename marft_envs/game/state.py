"""State of one game, from its reset to its end: the rounds so far, and what came of them.

`FlexMG` holds the definition of the game, which never changes, and one `GameState`. A reset makes a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from marft_envs.dependency.base import Dependency, RoundPlan
from marft_envs.game.episode import Episode
from marft_envs.game.secrets import Secret
from marft_envs.game.task import Outcome, Session, Task
from marft_envs.game.turn import Turn
from marft_envs.spaces import Message


@dataclass
class RoundHistory:
    """One round so far.

    Attributes:
        opening: The environment's message to all; without content it is shown to nobody.
        private: The environment's messages to single agents.
        dependency: D of this round, for the state in which it began.
        plan: Turn order and visibility; that of a routed round grows with the orchestrator's action.
        turns: Turns taken, in the turn order.
        events: Events of the round, once it is over; see `Outcome.events`.
        said: Whole action of each agent that has acted, as the message that other agents get.
        in_order: False once an agent acted before one that comes first in the turn order.
    """

    opening: Message
    private: Mapping[str, Message] = field(default_factory=dict)
    dependency: Dependency = field(init=False)
    plan: RoundPlan = field(init=False)
    turns: list[Turn] = field(default_factory=list)
    events: tuple[Mapping[str, Any], ...] = ()
    said: dict[str, Message] = field(default_factory=dict)
    in_order: bool = True

    @property
    def is_over(self) -> bool:
        """True once every agent of the plan has acted."""
        return len(self.turns) == len(self.plan.order)

    @property
    def next_agent(self) -> str:
        """The first agent in the turn order that has not acted; some has to be left."""
        if self.in_order:  # nearly always: the turns are the beginning of the order, so nothing is searched
            return self.plan.order[len(self.turns)]
        return next(agent for agent in self.plan.order if agent not in self.said)

    def is_ready(self, agent: str) -> bool:
        """Return True if the agent may act now: all actions that it sees in the round are taken, and its own is not."""
        if agent in self.said or agent not in self.plan.layer_of:
            return False
        return not self.plan.sees[agent].difference(self.said)

    def add(self, turn: Turn) -> int:
        """Add a turn at its place in the turn order; return how many turns of the round stand after it."""
        self.in_order = self.in_order and self.next_agent == turn.agent
        self.said[turn.agent] = Message("user", turn.action, turn.agent)
        if self.in_order:
            self.turns.append(turn)
            return 0
        # The record keeps the turn order, whichever of several ready agents was asked first.
        place = self.plan.order.index
        later = sum(place(other.agent) > place(turn.agent) for other in self.turns)
        self.turns.insert(len(self.turns) - later, turn)
        return later


@dataclass
class GameState:
    """Everything that changes between the reset of a game and its end.

    Attributes:
        task: Task being played.
        task_index: Its place in the set.
        seed: Seed given to the reset; None if none was.
        session: The task's side of the game.
        briefings: Texts for the system prompts of single agents.
        canaries: Random words that were planted into the private context of each agent.
        rounds: Rounds so far, the running one included.
        turns: Turns of all rounds, each round in its turn order.
        outcomes: Outcome of each finished round; None for one that was not judged.
        rewards: Team reward of each finished round.
        terms: Terms of the team reward; empty before the end, and for a reward without terms.
        invalid: Faults of the team so far.
        success: 1 once the task is solved.
        violation: 1 once the team broke a rule of a safety task.
        phase: Phase of the task that the running round belongs to.
        transcript: Characters of all messages and actions so far that no compaction has replaced.
    """

    task: Task
    task_index: int
    seed: int | None
    session: Session
    briefings: Mapping[str, str]
    canaries: tuple[Secret, ...] = ()
    rounds: list[RoundHistory] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    outcomes: list[Outcome | None] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terms: dict[str, float] = field(default_factory=dict)
    invalid: int = 0
    success: int = 0
    violation: int = 0
    phase: int = 0
    transcript: int = 0

    def begin(self, played: RoundHistory) -> None:
        """Begin a round with the environment's messages; it has no plan yet."""
        self.rounds.append(played)
        self.transcript += len(played.opening.content)
        for message in played.private.values():
            self.transcript += len(message.content)

    def take(self, turn: Turn) -> None:
        """Record the action of an agent in the running round."""
        later = self.rounds[-1].add(turn)
        self.turns.insert(len(self.turns) - later, turn)
        self.transcript += len(turn.action)
        if turn.fault:
            self.invalid += 1

    def compact(self) -> None:
        """Drop all rounds before the running one from the transcript, except for the problem that opened the game."""
        played = self.rounds[-1]
        kept = [played.opening, *played.private.values(), *played.said.values()]
        if len(self.rounds) > 1:  # else it is the opening of the running round
            kept.append(self.rounds[0].opening)
        self.transcript = sum(len(message.content) for message in kept)

    def finish(self, outcome: Outcome | None) -> None:
        """Record the outcome of the running round; None if it was not judged."""
        self.outcomes.append(outcome)
        if outcome is None:
            return
        self.rounds[-1].events = outcome.events  # for forms of communication that carry an agent's calls
        if outcome.invalid:
            self.invalid += 1
        if outcome.success:
            self.success = 1
        if outcome.detail.get("violation"):
            self.violation = 1

    def numbers(self) -> dict[str, int]:
        """Return the infos that are the same for all agents: the state that a dependency may depend on."""
        return {
            "success": self.success,
            "invalid": self.invalid,
            "turn": len(self.turns),
            "round": len(self.rounds) - 1,
            "task_index": self.task_index,
            "violation": self.violation,
            "phase": self.phase,
            "transcript": self.transcript,
        }

    def episode(self, env_id: str, settings: Mapping[str, Any], team: str) -> Episode:
        """Return the record of the game so far.

        Args:
            env_id: Id of the environment.
            settings: Settings of the game as data.
            team: Fingerprint of the team.
        """
        ended = len(self.rewards) == len(self.rounds)  # a game that goes on has opened a round that is not paid yet
        last = self.outcomes[-1] if self.outcomes else None
        terminated = last is not None and last.terminated
        return Episode(
            env_id=env_id,
            settings=settings,
            seed=self.seed,
            task_id=self.task.id,
            team=team,
            turns=tuple(self.turns),
            outcomes=tuple(self.outcomes),
            rewards=tuple(self.rewards),
            terms=dict(self.terms),
            terminated=ended and terminated,
            truncated=ended and not terminated,
        )
