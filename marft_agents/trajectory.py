"""Records exchanged by rollouts and the learner: episodes to play, and turns recorded at sampling time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float32]
TERM = "term_"  # prefix of the infos and metrics that hold terms of the team reward


class Shortening(NamedTuple):
    """A message that lost tokens from its middle to fit the context window.

    Attributes:
        message: Index among the messages of the observation.
        author: Name of its author, or its chat role where it has no name.
        removed: Number of tokens taken out.
        later: Number of later messages by the same author in the observation.
    """

    message: int
    author: str
    removed: int
    later: int


class TokenCounts(NamedTuple):
    """Token counts of an action whose tokens are not known, as a remote agent reports them.

    Attributes:
        prompt: Tokens of the prompt.
        output: Tokens of the action.
    """

    prompt: int
    output: int


@dataclass(frozen=True)
class EpisodeStart:
    """An episode to be played: its start state, and a prefix of fixed actions.

    Attributes:
        number: Unique number in the run; seeds the policies' randomness.
        group: Prompt group; episodes of one group start from the same state.
        seed: Seed for the environment's `reset`.
        options: Options for the environment's `reset`; None if there are none.
        prefix: Actions to replay unchanged before the policies are asked. Such an episode is a branch of another
            episode with the same start.
    """

    number: int
    group: int
    seed: int
    options: Mapping[str, Any] | None = None
    prefix: tuple[Action, ...] = ()


@dataclass(frozen=True)
class Action:
    """A generated action: the exact tokens that were sampled, with their log-probs at sampling time.

    Attributes:
        text: The decoded action without the end token; the environment receives this.
        prompt_ids: Prompt tokens fed to the model, int32 [P].
        token_ids: Sampled tokens, int32 [T], the end token included where it was sampled. Empty for policies without
            tokens (scripted, random, remote).
        logprobs: Natural log-probability of each token under the exact sampling parameters, float32 [T].
        stopped: True if the model ended the action itself, False if the token limit cut it.
        support: Per token the int32 ids that top-k/top-p kept as candidates; None means the whole vocabulary.
        exact: True if the log-probs are the trained model's own, to float error. False for another engine (vLLM, a
            server), whose distribution differs a little; the learner corrects for that.
        shortened: Messages of the observation that lost tokens to fit the context window; see
            `models.context_window`.
        failure: Cause if the policy could not act; the episode then fails with this cause. None if it acted.
        reported: Token counts that a remote agent reports for an action without tokens; None if it reports none.
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
    reported: TokenCounts | None = None

    @property
    def num_tokens(self) -> int:
        """Number of sampled tokens, end token included; of a remote agent as it reports them, else 0."""
        return len(self.token_ids) or (self.reported.output if self.reported else 0)


@dataclass(frozen=True)
class SampledTurn:
    """One agent's action in an episode and the team reward that followed it.

    Attributes:
        agent: Id of the acting agent.
        action: The sampled action with its tokens.
        reward: Team reward received in the step of this action (mean over agents where they differ).
        round: Round of the game in which it was played, from 0.
        layer: Layer of the agent in that round, from the infos; agents of one layer may act at the same time. None if
            the environment reports none.
        rewards: Reward of each agent in that step; None where all agents got the same.
    """

    agent: str
    action: Action
    reward: float
    round: int = 0
    layer: int | None = None
    rewards: Mapping[str, float] | None = None

    def reward_of(self, agent: str) -> float:
        """Return an agent's own reward in the step of this action."""
        return self.reward if self.rewards is None else self.rewards.get(agent, 0.0)


@dataclass(frozen=True)
class Trajectory:
    """A played episode: the chain of turns in the order they were played.

    Attributes:
        seed: Seed given to the environment's `reset`.
        group: Index of the prompt group of this episode; episodes of a group share the start state.
        turns: K turns along the chain.
        terminated: The game ended by its own rules; nothing follows.
        truncated: A limit cut the game; the value of `final_prompt_ids` is bootstrapped.
        final_agent: Agent that would act next after a truncation. "" if terminated, or if the truncation cut off no
            agent that plays tokens.
        final_prompt_ids: The final agent's prompt, int32 [P]; empty if there is no final agent.
        infos: Numeric infos of the last step (success, invalid, ...); missing keys mean not reported.
        branch: Index of the turn whose alternatives are compared. Episodes of one group share all turns before it, and
            only this turn is trained. None for a whole episode, all of whose turns are trained.
        failure: Cause if the environment failed; such an episode is a record, never trained on. None if fine.
        game: The environment's own record of the game as JSON, with the tokens of each turn. It holds observations,
            visibility between agents, tool effects and reward terms. None unless the metadata say "records_episodes"
            and `unwrapped.episode().to_dict()` returns it.
        unplayed: Turns that were generated, but are not part of `turns`: the step of one failed, and others were to
            act at the same time.
        step_seconds: Seconds that the steps of the environment took, replayed ones included; None if not measured.
            Not part of comparisons.
    """

    seed: int
    group: int
    turns: tuple[SampledTurn, ...]
    terminated: bool
    truncated: bool
    final_agent: str = ""
    final_prompt_ids: IntArray = field(default_factory=lambda: np.zeros(0, np.int32))
    infos: Mapping[str, float] = field(default_factory=dict)
    branch: int | None = None
    failure: str | None = None
    game: Mapping[str, Any] | None = None
    unplayed: tuple[SampledTurn, ...] = ()
    step_seconds: float | None = field(default=None, compare=False)

    @property
    def team_return(self) -> float:
        """Undiscounted sum of the team reward over the episode."""
        return float(sum(turn.reward for turn in self.turns))

    def return_of(self, agent: str) -> float:
        """Return the undiscounted sum of an agent's own rewards over the episode."""
        return float(sum(turn.reward_of(agent) for turn in self.turns))

    @property
    def terms(self) -> Mapping[str, float]:
        """Terms of the team reward, each before weighting: those of `game`, else the infos `term_NAME`."""
        if self.game is not None and "terms" in self.game:
            terms: Mapping[str, float] = self.game["terms"]
            return terms
        return {key.removeprefix(TERM): value for key, value in self.infos.items() if key.startswith(TERM)}

    @property
    def num_tokens(self) -> int:
        """Number of sampled tokens of all turns, end tokens included."""
        return sum(turn.action.num_tokens for turn in self.turns)


def mean_terms(trajectories: Iterable[Trajectory]) -> dict[str, float]:
    """Return the mean of each reward term over the episodes that have it; failed episodes have none."""
    values: dict[str, list[float]] = {}
    for trajectory in trajectories:
        if trajectory.failure is None:
            for name, value in trajectory.terms.items():
                values.setdefault(name, []).append(value)
    return {name: float(np.mean(found)) for name, found in values.items()}


def score(trajectory: Trajectory) -> float:
    """Return 1 for success, 0 for no success, and NaN for a failed episode.

    Success is read from the infos. Where they do not report it, a positive return counts as success.
    """
    if trajectory.failure is not None:
        return math.nan
    return float(trajectory.infos.get("success", trajectory.team_return > 0))
