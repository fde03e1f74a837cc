"""Policy protocol: requests of agents in, actions out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from marft_agents.models.context_window import ContextOverflowError
from marft_agents.trajectory import Action, TokenCounts

_T = TypeVar("_T")


@dataclass(frozen=True)
class Request:
    """One agent's turn that waits for an action.

    Attributes:
        agent: Id of the agent that must act.
        observation: Its text; may carry the chat form in an attribute `messages` (see `models.chat_template`).
        generator: Randomness of this turn, seeded by (seed, episode, turn).
        limit: Most tokens of the action where that is fewer than the sampling parameters allow; None: as they say.
        stop: Texts that end the action; it holds the tokens up to the first of them, its text stops before it.
    """

    agent: str
    observation: str
    generator: np.random.Generator
    limit: int | None = None
    stop: tuple[str, ...] = ()


def encodable(text: str) -> bool:
    """Return False for text with lone surrogates, which no tokenizer or UTF-8 file accepts."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Policy(Protocol):
    """Protocol of policies: answer a batch of requests, which may mix episodes and agents."""

    def act(self, requests: Sequence[Request]) -> list[Action]:
        """Return one action per request, in order."""
        ...


@runtime_checkable
class SessionPolicy(Policy, Protocol):
    """Protocol of policies that answer faster if they may keep what they computed for earlier turns."""

    def open_session(self) -> Policy:
        """Return the policy for some episodes, during which its weights do not change."""
        ...


@runtime_checkable
class RunningPolicy(Policy, Protocol):
    """Protocol of policies that take further requests while they sample, so that no game waits for the last one."""

    def submit(self, requests: Sequence[Request]) -> list[int]:
        """Queue requests; return the numbers under which `advance` will return their actions."""
        ...

    def advance(self) -> list[tuple[int, Action]]:
        """Sample on; return the actions that have ended, each with its number."""
        ...

    def close(self) -> None:
        """Drop what runs."""
        ...


class WholeBatches:
    """Running policy that answers all queued requests at once.

    Args:
        policy: Policy that answers.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._queued: list[Request] = []
        self._answered = 0

    def act(self, requests: Sequence[Request]) -> list[Action]:
        """Return the policy's actions."""
        return self._policy.act(requests)

    def submit(self, requests: Sequence[Request]) -> list[int]:
        """Queue requests, see `RunningPolicy`."""
        first = self._answered + len(self._queued)
        self._queued += requests
        return list(range(first, first + len(requests)))

    def advance(self) -> list[tuple[int, Action]]:
        """Answer all queued requests."""
        batch, self._queued = self._queued, []
        first = self._answered
        self._answered += len(batch)
        return list(enumerate(self._policy.act(batch), first))

    def close(self) -> None:
        """Do nothing."""


def session_of(policy: Policy) -> Policy:
    """Return a policy's session; the policy itself if it has none."""
    return policy.open_session() if isinstance(policy, SessionPolicy) else policy


def running_session(policy: Policy) -> RunningPolicy:
    """Return a policy's session, one that answers in whole batches if it takes no requests while it samples."""
    session = session_of(policy)
    return session if isinstance(session, RunningPolicy) else WholeBatches(session)


class FunctionPolicy:
    """Policy that calls a function.

    Args:
        answer: Returns one action per request, in order.
    """

    def __init__(self, answer: Callable[[Sequence[Request]], list[Action]]) -> None:
        self.answer = answer

    def act(self, requests: Sequence[Request]) -> list[Action]:
        """Return the function's actions."""
        return self.answer(requests)


class TimedPolicy:
    """Policy that measures how long another one takes to answer.

    Args:
        policy: Policy that answers.

    Attributes:
        seconds: Wall-clock seconds of all calls so far, those of sessions included.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy, self.seconds = policy, 0.0

    def open_session(self) -> Policy:
        """Return a session of the policy whose calls are measured, too."""
        session = session_of(self.policy)
        if isinstance(session, RunningPolicy):
            return _TimedSession(session, self.timed)
        return FunctionPolicy(partial(self.timed, session.act))

    def act(self, requests: Sequence[Request]) -> list[Action]:
        """Return the policy's actions."""
        return self.timed(self.policy.act, requests)

    def timed(self, function: Callable[..., _T], *args: Any) -> _T:
        """Return what a function returns; the seconds count."""
        asked = time.perf_counter()
        try:
            return function(*args)
        finally:
            self.seconds += time.perf_counter() - asked


class _TimedSession:
    """Running policy whose calls are measured.

    Args:
        session: Policy that answers.
        timed: Measures a call.
    """

    def __init__(self, session: RunningPolicy, timed: Callable[..., Any]) -> None:
        self.act = partial(timed, session.act)
        self.submit = partial(timed, session.submit)
        self.advance = partial(timed, session.advance)
        self.close = session.close


@runtime_checkable
class Sampler(Policy, Protocol):
    """Protocol of engines that sample for a learning team with copies of its adapters."""

    def refresh(self) -> None:
        """Load the current adapters; called before each update's rollout."""
        ...


def text_action(text: str, reported: TokenCounts | None = None) -> Action:
    """Wrap plain text as an action without tokens: it can be played but not trained on.

    Args:
        text: Text of the action.
        reported: Token counts that a remote agent reports; None: it reports none.
    """
    nothing = np.zeros(0, np.int32)
    return Action(text, nothing, nothing, np.zeros(0, np.float32), True, reported=reported)


def failed_action(cause: str) -> Action:
    """Return the action of a policy that could not act: its episode fails with this cause, others continue."""
    return replace(text_action(""), failure=cause)


class _Chat(str):
    """Observation text with a chat form in `messages`."""

    messages: tuple[Mapping[str, str], ...]


def completion(policy: Policy, agent: str, *, seed: int = 0) -> Callable[[Sequence[Mapping[str, str]]], str]:
    """Return a function from chat messages to a policy's reply, for graders that use a model as a judge.

    Each call samples with a fresh generator of the same seed, so the same messages get the same reply. The function
    is thread-safe.

    Args:
        policy: Policy that replies; nothing else may use it meanwhile.
        agent: Agent id under which it replies.
        seed: Seed of the sampling.
    """
    lock = threading.Lock()

    def complete(messages: Sequence[Mapping[str, str]]) -> str:
        chat = _Chat("\n\n".join(message["content"] for message in messages))
        chat.messages = tuple(messages)
        with lock:
            (action,) = policy.act([Request(agent, chat, np.random.default_rng(seed))])
        if action.failure is not None:
            raise ContextOverflowError(action.failure)
        return action.text

    return complete
