"""What the learner learns from: the trainable turns of episodes, and samples that know their credit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from marft_agents.learning.advantages import Array
from marft_agents.trajectory import Action, FloatArray, Trajectory, Turn


@dataclass(frozen=True)
class Sample:
    """One trained action with what it is credited for.

    Attributes:
        agent: who acted.
        episode: index of its trajectory in the batch.
        round: round of the game.
        action: the recorded tokens and log-probs.
        values: [m] V before each decision that the critic is asked about: m = 1 or the number of tokens; 0 if none.
        returns: [m] regression targets of V.
        advantages: [n], one per decision: n = 1 at action level, T at token level.
        credit: [n], the advantages before they were centred over agents and scaled.
        old: float32 [T], log-probs under the trained model before the update's first step.
        reference: float32 [T], log-probs under the base without adapter; None: not computed.
        positive: its episode succeeded.
    """

    agent: str
    episode: int
    round: int
    action: Action
    values: Array
    returns: Array
    advantages: Array
    credit: Array
    old: FloatArray
    reference: FloatArray | None = None
    positive: bool = False


@dataclass(frozen=True)
class Link:
    """A trainable turn in the chain of an episode.

    Attributes:
        episode: index of the trajectory.
        turn: the turn; its reward includes what untrained turns after it earned.
        old: float32 [T], see `Sample`; None: the recorded ones.
        reference: float32 [T], see `Sample`.
    """

    episode: int
    turn: Turn
    old: FloatArray | None = None
    reference: FloatArray | None = None

    def sample(
        self, values: Array, returns: Array, advantages: Array, *, credit: Array | None = None, positive: bool = False
    ) -> Sample:
        """Return the sample that credits this turn."""
        turn = self.turn
        old = turn.action.logprobs if self.old is None else self.old
        credited = (values, returns, advantages, advantages if credit is None else credit)
        return Sample(turn.agent, self.episode, turn.round, turn.action, *credited, old, self.reference, positive)


def links(trajectories: Sequence[Trajectory]) -> list[Link]:
    """Return the trainable turns of all finished episodes, episode by episode.

    Turns without tokens (scripted or remote agents), and of a branch all turns but the one that is compared, belong to
    the environment: their reward goes to the trainable turn before them. Failed episodes are left out.
    """
    found: list[Link] = []
    for index, trajectory in enumerate(trajectories):
        if trajectory.failure is not None:
            continue
        for k, turn in enumerate(trajectory.turns):
            if len(turn.action.token_ids) and trajectory.branch in (None, k):
                found.append(Link(index, turn))
            elif found and found[-1].episode == index and turn.reward:
                last = found[-1].turn
                found[-1] = Link(index, replace(last, reward=last.reward + turn.reward))
    return found
