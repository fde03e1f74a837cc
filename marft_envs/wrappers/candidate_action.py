"""Discrete choice among proposed utterances: one step is one utterance, an action is its index.

This is the simplest numeric form of a text game, and every library takes it. Use it for classic algorithms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from marft_envs.environment_capabilities import listing_game, ready_agents
from marft_envs.game.task import Task
from marft_envs.wrappers.base import AnyAEC, UtteranceView, add_message, as_index, wider


class ProposalRequest(NamedTuple):
    """Request to a policy: the agent, its observation, and the generator for the answer."""

    agent: str
    observation: Any
    generator: np.random.Generator


@runtime_checkable
class ProposalPolicy(Protocol):
    """A policy that writes text, such as those of `marft_agents`."""

    def act(self, requests: Any, /) -> Sequence[Any]:
        """Return one answer per `ProposalRequest`; its text is the attribute `text`."""


Proposals = Sequence[str] | Mapping[str, Sequence[str]] | Callable[[AnyAEC, str], Sequence[str]] | ProposalPolicy


class CandidateAction(UtteranceView):
    r"""Wrapper with `Discrete(k)` actions, and a mask if there are fewer than k candidates.

    Args:
        env: An AEC environment with text actions.
        candidates: Possible utterances: the same texts for all agents, or by agent; a function (env, agent) -> texts; a
            policy (`act`), asked k times a turn, its repetitions left out. None asks the game:
            `env.unwrapped.candidates(agent)`, or of a Flex-MG `tasks.candidates(task, agent)`, or
            `tasks.valid_actions(session, agent)` where they depend on the state of the game.
        k: Number of actions; needed unless the texts are given themselves.
        show: True to write the candidates below the observation of the acting agent; useful if they change.

    Raises:
        ValueError: The actions of `env` are no text, `k` is missing or too small, or the game proposes nothing.

    Examples:
        >>> env = CandidateAction(env, ["\\boxed{1}", "\\boxed{2}"])  # doctest: +SKIP
    """

    shared = ("_candidates",)

    def __init__(
        self, env: AnyAEC, candidates: Proposals | None = None, k: int | None = None, *, show: bool = False
    ) -> None:
        super().__init__(env)
        self._candidates = _game_hook(env) if candidates is None else candidates
        self.k = _size(self._candidates, k)
        self.show = show
        self.joint = isinstance(self._candidates, Sequence) and not show
        self.candidates: tuple[str, ...] = ()
        self.action_spaces = {agent: spaces.Discrete(self.k) for agent in env.possible_agents}
        if show:
            self.observation_spaces = {agent: wider(space) for agent, space in self.observation_spaces.items()}
        self._generator: np.random.Generator | None = None

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a game; arguments as in the game."""
        if seed is not None or self._generator is None:
            self._generator = np.random.default_rng(seed)
        super().reset(seed, options)
        self._propose()

    def step(self, action: Any) -> None:
        """Say the candidate with this index."""
        if not self._is_acting(self.agent_selection):
            super().step(action)
        else:
            self._refuse_none(action)
            number = as_index(action, len(self.candidates))
            self._say(None if number is None else self.candidates[number])
        self._propose()

    def action_mask(self, agent: str) -> NDArray[np.int8]:
        """Return 1 for each existing candidate; 1 everywhere for an agent that does not act now."""
        acting = self._is_acting(agent) or (self.joint and agent in self.infos and agent in ready_agents(self))
        legal = len(self.candidates) if acting else self.k
        return (np.arange(self.k) < legal).astype(np.int8)

    def observe(self, agent: str) -> Any:
        """Return an agent's observation."""
        seen = super().observe(agent)
        if not self.show or not self._is_acting(agent):
            return seen
        return add_message(seen, "candidates", "\n".join(f"{i}: {text}" for i, text in enumerate(self.candidates)))

    def _propose(self) -> None:
        """Fix the candidates of this turn; without proposals the only one is the empty text."""
        agent = self.agent_selection
        texts = tuple(self._ask(agent)) if self._is_acting(agent) else ()
        if len(texts) > self.k:
            raise ValueError(f"{len(texts)} candidates for {agent}, wanted at most k = {self.k}")
        self.candidates = texts or ("",)

    def _ask(self, agent: str) -> Sequence[str]:
        source = self._candidates
        if isinstance(source, ProposalPolicy):
            assert self._generator is not None
            seen = self.env.observe(agent)
            requests = [ProposalRequest(agent, seen, generator) for generator in self._generator.spawn(self.k)]
            return list(dict.fromkeys(answer.text for answer in source.act(requests)))
        if callable(source):
            return source(self.env, agent)
        return source[agent] if isinstance(source, Mapping) else source


def _size(candidates: Proposals, k: int | None) -> int:
    if isinstance(candidates, Mapping):
        needed = max(map(len, candidates.values()))
    else:
        needed = len(candidates) if isinstance(candidates, Sequence) else 0
    k = k or needed
    if k < max(needed, 1):
        raise ValueError(f"k: found {k}, wanted at least {max(needed, 1)}, the number of candidates")
    return k


@runtime_checkable
class ProposingGame(Protocol):
    """A game that proposes actions itself."""

    def candidates(self, agent: str, /) -> Sequence[str]:
        """Return the texts that an agent may choose from now."""


@runtime_checkable
class ProposingTasks(Protocol):
    """A set of tasks that proposes actions."""

    def candidates(self, task: Task, agent: str, /) -> Sequence[str]:
        """Return the texts that an agent may choose from in a task."""


@runtime_checkable
class StatefulProposingTasks(Protocol):
    """A set of tasks whose proposed actions depend on the state of the game."""

    def valid_actions(self, session: Any, agent: str, /) -> Sequence[str]:
        """Return the texts that an agent may choose from in the present state of a session."""


def _game_hook(env: AnyAEC) -> Callable[[AnyAEC, str], Sequence[str]]:
    """Return the function that proposes texts in the game itself."""
    if isinstance(env.unwrapped, ProposingGame):
        return _from_game
    listed = listing_game(env)
    if listed is not None and isinstance(listed.tasks, ProposingTasks):
        return _from_tasks
    if listed is not None and isinstance(listed.tasks, StatefulProposingTasks):
        return _from_session
    raise ValueError(
        f"{env.unwrapped} proposes no candidates: give `candidates`, a list of texts or a function (env, agent)"
    )


def _from_game(env: AnyAEC, agent: str) -> Sequence[str]:
    game: Any = env.unwrapped
    texts: Sequence[str] = game.candidates(agent)
    return texts


def _from_tasks(env: AnyAEC, agent: str) -> Sequence[str]:
    game: Any = listing_game(env)
    texts: Sequence[str] = game.tasks.candidates(game.task, agent)
    return texts


def _from_session(env: AnyAEC, agent: str) -> Sequence[str]:
    game: Any = listing_game(env)
    texts: Sequence[str] = game.tasks.valid_actions(game.session, agent)
    return texts
