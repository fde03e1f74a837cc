"""What flows to rollouts and from them to the learner: episodes to play; turns, recorded where they were sampled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float32]


class Shortening(NamedTuple):
    """One message that lost tokens from its middle.

    Attributes:
        message: Index among the messages of the observation.
        author: Name of its author, or its chat role where it has no name.
        removed: Number of tokens taken out.
        later: How many messages of the same author follow it in the observation.
    """

    message: int
    author: str
    removed: int
    later: int


@dataclass(frozen=True)
class Episode:
    """What to play.

    Attributes:
        number: unique in the run; seeds the policies' randomness.
        group: episodes of one group start from the same state.
        seed: for `reset`.
        options: for `reset`; None if there are none.
        prefix: actions that are played as they are before the policies are asked: a branch of another episode of
            the same start.
    """

    number: int
    group: int
    seed: int
    options: Mapping[str, Any] | None = None
    prefix: tuple[Action, ...] = ()


@dataclass(frozen=True)
class Action:
    """One generated action: exactly the tokens that were sampled and the law they were sampled under.

    Attributes:
        text: the decoded action without the end token; what the environment gets.
        prompt_ids: int32 [P], the tokens the model was fed.
        token_ids: int32 [T], the sampled tokens, the end token included where it was sampled. Empty for
            policies without tokens (scripted, random, remote).
        logprobs: float32 [T], natural log-probability of each token under the exact sampling law.
        stopped: True if the model ended the action itself, False if the token limit cut it.
        support: per token the int32 ids that top-k/top-p left to choose from; None means the whole
            vocabulary.
        exact: the log-probs are the trained model's own, to float error. False for another engine's (vLLM, a
            server): its law differs a little, and the learner corrects for that.
        shortened: the messages of the observation that lost tokens to fit the context window; see `context`.
        failure: why the policy could not act; the episode then fails with this cause. None if it acted.
    """

    text: str
    prompt_ids: IntArray
    token_ids: IntArray
    logprobs: FloatArray
    stopped: bool
    support: tuple[IntArray, ...] | None = None
    exact: bool = True
    shortened: tuple[Shortening, ...] = ()
    failure: str | None = None


@dataclass(frozen=True)
class Turn:
    """One agent's action in an episode and the team reward that followed it.

    Attributes:
        agent: who acted.
        action: what was sampled.
        reward: team reward received in the step of this action (mean over agents where they differ).
        round: which round of the game it was played in, from 0.
    """

    agent: str
    action: Action
    reward: float
    round: int = 0


@dataclass(frozen=True)
class Trajectory:
    """One episode: the chain of turns in the order they were played.

    Attributes:
        seed: seed given to `reset`.
        group: index of the task draw this episode belongs to; episodes of a group share the start state.
        turns: K turns along the chain.
        terminated: the game ended by its own rules; nothing follows.
        truncated: a limit cut the game; the value of `final_prompt_ids` is bootstrapped.
        final_agent: agent that would act next after a truncation; "" if terminated, or if no agent that plays
            tokens was cut off.
        final_prompt_ids: int32 [P], its prompt; empty if there is no final agent.
        infos: the numeric infos of the last step (success, invalid, ...); missing keys mean not reported.
        branch: index of the turn whose alternatives are compared: episodes of one group share all turns before it, and
            only this turn is trained. None: a whole episode, all of whose turns are trained.
        failure: cause if the environment failed; such an episode is a record, never trained on. None if fine.
        game: the environment's own record of the game as JSON (what was seen, who saw whom, what tools did, terms of
            the reward) with the tokens of each turn, where its metadata say "records_episodes" and
            `unwrapped.episode().to_dict()` gives it; else None.
    """

    seed: int
    group: int
    turns: tuple[Turn, ...]
    terminated: bool
    truncated: bool
    final_agent: str = ""
    final_prompt_ids: IntArray = field(default_factory=lambda: np.zeros(0, np.int32))
    infos: Mapping[str, float] = field(default_factory=dict)
    branch: int | None = None
    failure: str | None = None
    game: Mapping[str, Any] | None = None

    @property
    def team_return(self) -> float:
        """Undiscounted sum of the team reward."""
        return float(sum(turn.reward for turn in self.turns))

    @property
    def num_tokens(self) -> int:
        """Number of sampled tokens, end tokens included."""
        return sum(len(turn.action.token_ids) for turn in self.turns)


def score(trajectory: Trajectory) -> float:
    """Return 1 for success and 0 for none; NaN for a failed episode.

    Success is what infos report; an environment that reports none succeeds with a positive return.
    """
    if trajectory.failure is not None:
        return math.nan
    return float(trajectory.infos.get("success", trajectory.team_return > 0))
