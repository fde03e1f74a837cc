"""Training batch: the trainable turns of episodes (`Link`), and samples with advantages and targets (`Sample`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from marft_agents.learning.advantages import Array
from marft_agents.trajectory import Action, FloatArray, Trajectory, Turn


@dataclass(frozen=True)
class Sample:
    """A recorded action with its advantages and value targets.

    Attributes:
        agent: Agent that took the action.
        episode: Index of its trajectory in the batch.
        round: Round of the game.
        action: Recorded tokens and log-probs.
        values: Float64 [m], V before each decision that the critic evaluates: m = 0, 1 or the number of tokens T.
        returns: Float64 [m], regression targets of V.
        advantages: Float64 [n], one per decision: n = 1 at action level, T at token level.
        credit: Float64 [n], the advantages before centring and scaling.
        old: Float32 [T], log-probs under the trained model before the update's first step.
        reference: Float32 [T], log-probs under the base without adapter; None: not computed.
        positive: True if its episode succeeded.
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
        episode: Index of the trajectory in the batch.
        turn: Recorded turn; its reward includes the rewards of untrained turns after it.
        old: Float32 [T], see `Sample`; None: use the recorded log-probs.
        reference: Float32 [T], see `Sample`; None: not computed.
    """

    episode: int
    turn: Turn
    old: FloatArray | None = None
    reference: FloatArray | None = None

    def sample(
        self, values: Array, returns: Array, advantages: Array, *, credit: Array | None = None, positive: bool = False
    ) -> Sample:
        """Return the sample of this turn with the given values, returns and advantages."""
        turn = self.turn
        old = turn.action.logprobs if self.old is None else self.old
        credited = (values, returns, advantages, advantages if credit is None else credit)
        return Sample(turn.agent, self.episode, turn.round, turn.action, *credited, old, self.reference, positive)


def links(trajectories: Sequence[Trajectory]) -> list[Link]:
    """Return the trainable turns of all finished episodes, episode by episode.

    Turns without tokens (scripted or remote agents) belong to the environment. So do all turns of a branch but the one
    that is compared. Their reward goes to the trainable turn before them. Failed episodes are left out.
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
