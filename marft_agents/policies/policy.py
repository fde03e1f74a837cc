"""What a policy is: something that answers requests of agents with actions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np

from marft_agents.models.context_window import ContextOverflowError
from marft_agents.trajectory import Action


@dataclass(frozen=True)
class Request:
    """One agent's turn, waiting for an action.

    Attributes:
        agent: who must act.
        observation: what it sees; may carry the chat form in an attribute `messages` (see `chat`).
        generator: the randomness of this turn, made from (seed, episode, turn).
    """

    agent: str
    observation: str
    generator: np.random.Generator


def encodable(text: str) -> bool:
    """Return False for text with lone surrogates, which no tokenizer and no file takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Policy(Protocol):
    """Answers many requests at once; requests of different episodes and agents may be mixed."""

    def act(self, requests: Sequence[Request]) -> list[Action]:
        """Return one action per request, in order."""
        ...


@runtime_checkable
class Sampler(Policy, Protocol):
    """A policy that plays with copies of the adapters of a team that learns: another engine than the team's own."""

    def refresh(self) -> None:
        """Take over the adapters as they are now; called before each update is played."""
        ...


def text_action(text: str) -> Action:
    """Wrap plain text as an action without tokens: it can be played but not trained on."""
    return Action(text, np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.float32), True)


def failed_action(cause: str) -> Action:
    """Return the action of a policy that could not act: its episode fails with this cause, the others go on."""
    return replace(text_action(""), failure=cause)


class _Chat(str):
    """An observation of which all that matters is its chat form."""

    messages: tuple[Mapping[str, str], ...]


def completion(policy: Policy, agent: str, *, seed: int = 0) -> Callable[[Sequence[Mapping[str, str]]], str]:
    """Return a function from chat messages to a policy's reply, such as graders ask for as a judge.

    The same messages get the same reply: each is sampled from a generator of its own. May be called in any thread.

    Args:
        policy: which replies; nothing else may use it meanwhile.
        agent: as which it replies.
        seed: of the sampling.
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
