"""Agents behind an OpenAI-compatible endpoint: frozen partners of a learning team, and evaluation.

Remote actions are text without tokens, so they are played but never trained on. A try has one deadline, and the SDK's
own retries apply: connection errors, 408, 409, 429 and 5xx are retried with growing pauses. Every request carries a
seed unless the endpoint refuses it, but endpoints may ignore it. So the transcript of a remote agent need not repeat.
The token counts that an endpoint reports are part of the action.

    policy = RemotePolicy("http://localhost:8000/v1", "some-model")
    evaluate(make_env, MixedPolicy({"reasoner_0": policy, "actor_0": team}), scenarios)
"""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.chat_template import merge_turns, messages_of
from marft_agents.policies.policy import Request, failed_action, text_action
from marft_agents.trajectory import Action, TokenCounts
from marft_common.installation import pip_install

TokenLimit = Literal["max_tokens", "max_completion_tokens"]
NO_KEY = "none"  # the SDK requires a key; local servers ignore it


class RemoteError(RuntimeError):
    """A failed call to an endpoint; names the endpoint, the reply found and the reply wanted."""


class RemotePolicy:
    """Policy that asks a chat-completions endpoint for each action.

    Args:
        base_url: URL of the endpoint, up to and including its version, like `http://localhost:8000/v1`.
        model: Model name at the endpoint.
        sampling: Temperature, top_p and token limit; endpoints do not support top-k.
        api_key_env: Environment variable that holds the key; if unset, a dummy key is sent.
        concurrency: Largest number of requests in flight.
        timeout_s: Time limit of one try, from its first byte to the last one of the answer, in seconds.
        retries: Number of further tries after a failed one.
        token_limit: Name of the token limit in a request; endpoints of reasoning models want "max_completion_tokens".
        sends_seed: False for an endpoint that refuses seeds.
        fails_episodes: True: a request that failed makes its episode fail, with the cause. False: it raises.

    Raises:
        RemoteError: The `openai` package is missing, or the sampling parameters have a top-k.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        sampling: SamplingParams | None = None,
        *,
        api_key_env: str = "OPENAI_API_KEY",
        concurrency: int = 8,
        timeout_s: float = 60.0,
        retries: int = 3,
        token_limit: TokenLimit = "max_tokens",
        sends_seed: bool = True,
        fails_episodes: bool = False,
    ) -> None:
        self.base_url = base_url
        self.model = model
        self.sampling = _without_top_k(sampling or SamplingParams())
        self.concurrency = concurrency
        self.token_limit = token_limit
        self.sends_seed = sends_seed
        self.fails_episodes = fails_episodes
        self._client = open_client(base_url, os.environ.get(api_key_env) or NO_KEY, timeout_s, retries)

    def act(self, requests: Sequence[Request]) -> list[Action]:
        """Request one action per turn, `concurrency` at a time.

        Raises:
            RemoteError: The endpoint failed after all retries, or its answer is not a chat completion, and
                `fails_episodes` is False.
        """
        seeds = [int(request.generator.integers(2**31)) for request in requests]
        pool = ThreadPoolExecutor(max_workers=max(1, min(self.concurrency, len(requests))))
        try:
            return list(pool.map(self._answer, requests, seeds))
        finally:
            pool.shutdown(cancel_futures=True)  # after a failure, waiting requests are not sent

    def under(self, sampling: SamplingParams) -> RemotePolicy:
        """Return the same endpoint with other sampling parameters; both share the client."""
        other = copy.copy(self)
        other.sampling = _without_top_k(sampling)
        return other

    def check(self) -> None:
        """Raise a RemoteError if the endpoint does not answer; one that does not list its models is accepted."""
        from openai import NotFoundError, OpenAIError

        try:
            self._client.models.list()
        except NotFoundError:
            return
        except (OpenAIError, ValueError) as error:
            raise RemoteError(
                f"endpoint {self.base_url}: wanted a server that answers, found {type(error).__name__}: "
                f"{shorten(error)}"
            ) from error

    def close(self) -> None:
        """Close the connections to the endpoint."""
        self._client.close()

    def _answer(self, request: Request, seed: int) -> Action:
        try:
            return self._ask(request, seed)
        except RemoteError as error:
            if not self.fails_episodes:
                raise
            return failed_action(str(error))

    def _ask(self, request: Request, seed: int) -> Action:
        from openai import OpenAIError

        try:
            completion = self._client.chat.completions.create(
                model=self.model,
                messages=merge_turns(messages_of(request.observation)),
                temperature=self.sampling.temperature,
                top_p=self.sampling.top_p,
                **{self.token_limit: self.sampling.max_new_tokens},
                **({"seed": seed} if self.sends_seed else {}),
            )
        except (OpenAIError, ValueError) as error:  # ValueError: the body is not JSON
            raise RemoteError(f"{self._place(request)}: {type(error).__name__}: {shorten(error)}") from error
        return text_action(self._content(request, completion), _usage(completion))

    def _content(self, request: Request, completion: Any) -> str:
        """Return the text of a completion, or raise a RemoteError for any other reply.

        A message without content is an empty answer: a reasoning model has used up its tokens, or refuses.
        """
        try:
            message = completion.choices[0].message
            content = "" if message.content is None else message.content
        except (AttributeError, IndexError, TypeError):
            content = None
        if not isinstance(content, str):
            raise RemoteError(
                f"{self._place(request)}: wanted a chat completion with choices[0].message.content, "
                f"found {shorten(completion)}"
            )
        return content

    def __str__(self) -> str:
        return f"endpoint:{self.base_url}#{self.model}"

    def _place(self, request: Request) -> str:
        return f"endpoint {self.base_url}, model {self.model!r}, agent {request.agent!r}"


def _without_top_k(sampling: SamplingParams) -> SamplingParams:
    if sampling.top_k:
        raise RemoteError(f"top_k = {sampling.top_k}: chat-completions endpoints know no top-k, wanted 0")
    return sampling


def _usage(completion: Any) -> TokenCounts | None:
    """Return the token counts that a completion reports, or None."""
    usage = getattr(completion, "usage", None)
    prompt, output = (getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens"))
    if type(prompt) is not int or type(output) is not int or min(prompt, output) < 0:
        return None
    return TokenCounts(prompt, output)


def open_client(base_url: str, key: str, timeout_s: float, retries: int) -> Any:
    """Return a client of the OpenAI SDK, or raise a RemoteError with the package to install."""
    try:
        from marft_common.openai_client import open_client as open_sdk
    except ImportError as error:
        raise RemoteError(f"remote agents need the package openai: {pip_install('remote')}") from error
    return open_sdk(base_url, key, timeout_s, retries)


def shorten(found: object) -> str:
    """Return a finding as one line of at most 300 characters, for an error message."""
    text = " ".join(str(found).split())
    return text if len(text) <= 300 else text[:300] + "..."
