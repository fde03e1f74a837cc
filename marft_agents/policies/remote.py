"""Agents behind an OpenAI-compatible endpoint: frozen partners of a learning team, and evaluation.

Remote actions are text without tokens, so they are played but never trained on. The SDK's own timeouts and retries
apply (connection errors, 408, 409, 429 and 5xx are tried again with growing pauses). Seeds are sent with every
request, but whether an endpoint honours them is its own affair: the transcript of a remote agent need not repeat.

    policy = RemotePolicy("http://localhost:8000/v1", "some-model")
    evaluate(make_env, MixedPolicy({"reasoner_0": policy, "actor_0": team}), scenarios)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from marft_agents.generation.sampling import SamplingLaw
from marft_agents.models.chat_template import merge_turns, messages_of
from marft_agents.policies.policy import Request, text_action
from marft_agents.trajectory import Action

NO_KEY = "none"  # the SDK wants a key; local servers look at none


class RemoteError(RuntimeError):
    """An endpoint that did not answer as it should; says which, what came and what was wanted."""


class RemotePolicy:
    """Asks a chat-completions endpoint for each action.

    Args:
        base_url: the endpoint, up to and including its version, like `http://localhost:8000/v1`.
        model: the model's name there.
        law: temperature, top_p and token limit; endpoints know no top-k.
        api_key_env: environment variable that holds the key; an unset one sends no usable key.
        concurrency: requests in flight at most.
        timeout_s: seconds until one try is given up.
        retries: further tries after a failed one.

    Raises:
        RemoteError: the `openai` package is missing, or the law has a top-k.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        law: SamplingLaw | None = None,
        *,
        api_key_env: str = "OPENAI_API_KEY",
        concurrency: int = 8,
        timeout_s: float = 60.0,
        retries: int = 3,
    ) -> None:
        self.base_url = base_url
        self.model = model
        self.law = law or SamplingLaw()
        self.concurrency = concurrency
        if self.law.top_k:
            raise RemoteError(f"top_k = {self.law.top_k}: chat-completions endpoints know no top-k, wanted 0")
        self._client = open_client(base_url, os.environ.get(api_key_env) or NO_KEY, timeout_s, retries)

    def act(self, requests: Sequence[Request]) -> list[Action]:
        """Ask for one action per request, `concurrency` at a time.

        Raises:
            RemoteError: the endpoint failed after all retries, or answered with something else than a chat completion.
        """
        seeds = [int(request.generator.integers(2**31)) for request in requests]
        pool = ThreadPoolExecutor(max_workers=max(1, min(self.concurrency, len(requests))))
        try:
            return list(pool.map(self._ask, requests, seeds))
        finally:
            pool.shutdown(cancel_futures=True)  # after a failure the requests that wait are not sent

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _ask(self, request: Request, seed: int) -> Action:
        from openai import OpenAIError

        try:
            completion = self._client.chat.completions.create(
                model=self.model,
                messages=merge_turns(messages_of(request.observation)),
                temperature=self.law.temperature,
                top_p=self.law.top_p,
                max_tokens=self.law.max_new_tokens,
                seed=seed,
            )
        except (OpenAIError, ValueError) as error:  # ValueError: a body that is no JSON
            raise RemoteError(f"{self._place(request)}: {type(error).__name__}: {shorten(error)}") from error
        return text_action(self._content(request, completion))

    def _content(self, request: Request, completion: Any) -> str:
        """Return the text of a completion, whatever the endpoint made of the format."""
        try:
            content = completion.choices[0].message.content
        except (AttributeError, IndexError, TypeError):
            content = None
        if not isinstance(content, str):
            raise RemoteError(
                f"{self._place(request)}: wanted a chat completion with choices[0].message.content, "
                f"found {shorten(completion)}"
            )
        return content

    def _place(self, request: Request) -> str:
        return f"endpoint {self.base_url}, model {self.model!r}, agent {request.agent!r}"


def open_client(base_url: str, key: str, timeout_s: float, retries: int) -> Any:
    """Return a client of the OpenAI SDK, or raise a RemoteError that says what to install."""
    try:
        from openai import OpenAI
    except ImportError as error:
        raise RemoteError("remote agents need the package openai: pip install 'marft[remote]'") from error
    return OpenAI(base_url=base_url, api_key=key, timeout=timeout_s, max_retries=retries)


def shorten(found: object) -> str:
    """Return what was found as one line of at most 300 characters, for an error."""
    text = " ".join(str(found).split())
    return text if len(text) <= 300 else text[:300] + "..."
