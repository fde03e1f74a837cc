"""OpenAI-compatible server (vLLM) as the sampler of a learning team: completions of token ids, adapters by name.

    VLLM_ALLOW_RUNTIME_LORA_UPDATING=True vllm serve MODEL --enable-lora --max-loras 2 --max-lora-rank 8 \
        --logprobs-mode processed_logprobs --generation-config vllm

The server must see the adapter folder under the same path: same machine, or a shared file system.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from marft_agents.policies.canary import WIDTH, Canary
from marft_agents.policies.external_sampler import (
    MASKED,
    AdapterVersions,
    Sampled,
    num_logprobs,
    sole_base,
    to_action,
    without_mixing,
)
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.policies.policy import Request
from marft_agents.policies.remote import NO_KEY, RemoteError, open_client, shorten
from marft_agents.policies.sampler_error import SamplerError
from marft_agents.policies.server_log import last_error
from marft_agents.trajectory import Action, IntArray

T = TypeVar("T")
ID_MARK = "token_id:"  # vLLM's token prefix under `return_tokens_as_token_ids`
PROBE_WIDTH = 5


class ServerSampler:
    """Sampler that calls `/v1/completions` once per action, and loads adapters with `/v1/load_lora_adapter`.

    Args:
        team: The learning team; its sampling parameters are used.
        folder: Folder in which adapters are written for the server to load.
        base_url: URL of the server, up to and including its version, like `http://localhost:8000/v1`.
        api_key_env: Environment variable that holds the key; if unset, a dummy key is sent.
        concurrency: Largest number of requests in flight.
        timeout_s: Timeout of one try, in seconds.
        retries: Number of further tries after a failed one.
        canary: True to compare the server's log-probs with the learner's after each `refresh`, see `policies.canary`.

    Raises:
        SamplerError: The server cannot sample for this team (several bases, top-p without top-k), or reports raw
            log-probs.
        RemoteError: The package `openai` is missing, or the server does not answer.
    """

    def __init__(
        self,
        team: LanguageModelTeam,
        folder: Path,
        base_url: str,
        *,
        api_key_env: str = "OPENAI_API_KEY",
        concurrency: int = 128,
        timeout_s: float = 600.0,
        retries: int = 3,
        canary: bool = True,
    ) -> None:
        sole_base(team)
        self.team = team
        self.base_url = base_url
        self.concurrency = concurrency
        self._top = num_logprobs(team.sampling)
        self._client = open_client(base_url, os.environ.get(api_key_env) or NO_KEY, timeout_s, retries)
        self._versions = AdapterVersions(team, folder)
        self._written: dict[str, Path] = {}
        self._canary = Canary(team, f"server {base_url}") if canary else None
        try:
            models = self._try("its models", lambda: [model.to_dict() for model in self._client.models.list().data])
            names = [model["id"] for model in models if not model.get("parent")]
            if not names:
                raise SamplerError(f"server {base_url} serves no base model: {shorten(models)}")
            self._model = str(names[0])
            self._refuse_raw_logprobs()
            if self._canary is not None:
                self._canary.check_base(lambda prompt: self._one_token(self._model, prompt, width=WIDTH, top_k=0))
        except (SamplerError, RemoteError):
            self._client.close()
            raise

    def refresh(self) -> None:
        """Write the adapters and have the server load them in place of the previous ones.

        Raises:
            RemoteError: The server refused to load an adapter.
            SamplerError: The server accepted an adapter, and samples from something else.
        """
        old, self._written = self._written, self._versions.write()
        self._unload(old)
        for path in self._written.values():
            self._post("load_lora_adapter", {"lora_name": path.name, "lora_path": str(path)})
        if self._canary is not None:
            self._canary.check(self._first_token)

    def act(self, requests: Sequence[Request]) -> list[Action]:
        """Request one action per turn, `concurrency` at a time.

        Raises:
            SamplerError: `refresh` was never called, or the server's reply is not as wanted.
            RemoteError: The server failed after all retries.
            ContextOverflowError: A prompt is too long, and the team's `overflow` is "error".
        """
        return self.team.answer(requests, without_mixing(self.team, self._ask))

    def _ask(self, requests: Sequence[Request], prompts: Sequence[IntArray]) -> list[Action]:
        seeds = [int(request.generator.integers(2**31)) for request in requests]
        pool = ThreadPoolExecutor(max_workers=max(1, min(self.concurrency, len(requests))))
        try:
            agents = [request.agent for request in requests]
            sampled = list(pool.map(self._sample, agents, prompts, seeds))
        finally:
            pool.shutdown(cancel_futures=True)  # after a failure, waiting requests are not sent
        return [
            to_action(self.team, agent, prompt, told)
            for agent, prompt, told in zip(agents, prompts, sampled, strict=True)
        ]

    def close(self) -> None:
        """Unload the adapters from the server, delete them from disk, and close the connections."""
        self._unload(self._written)
        self._written = {}
        self._client.close()

    def _unload(self, written: dict[str, Path]) -> None:
        for path in written.values():
            with contextlib.suppress(RemoteError):  # a restarted server has lost the adapter
                self._post("unload_lora_adapter", {"lora_name": path.name})
        self._versions.remove(written)

    def _sample(self, agent: str, prompt: IntArray, seed: int) -> Sampled:
        sampling = self.team.sampling
        choice = self._complete(
            self._model_of(agent),
            prompt.tolist(),
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=sampling.max_new_tokens,
            seed=seed,
            logprobs=max(1, self._top),
            top_k=sampling.top_k,
            stop_token_ids=sorted(self.team.local_agent(agent).base.end_ids),
        )
        return self._read(choice, prompt)

    def _model_of(self, agent: str) -> str:
        adapter = self.team.local_agent(agent).adapter
        if adapter is None:
            return self._model
        if adapter not in self._written:
            raise SamplerError("refresh() has to be called before act(): the server has no adapters yet")
        return self._written[adapter].name

    def _complete(
        self, model: str, prompt: list[int], *, top_k: int, stop_token_ids: list[int], **sampling: Any
    ) -> Any:
        beyond_openai = {  # set explicitly: else a server reads them from the model's folder
            "top_k": top_k,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "stop_token_ids": stop_token_ids,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
        }

        def complete() -> Any:
            completion = self._client.completions.create(
                model=model, prompt=prompt, extra_body=beyond_openai, **sampling
            )
            return completion.choices[0].to_dict()

        return self._try(f"model {model!r}", complete)

    def _read(self, choice: Any, prompt: IntArray) -> Sampled:
        try:
            fed = choice["prompt_token_ids"]
            if fed != prompt.tolist():
                raise SamplerError(f"server {self.base_url} was fed other tokens than it was sent: {shorten(fed)}")
            told = choice["logprobs"]
            top = [{_id(name): value for name, value in position.items()} for position in told["top_logprobs"]]
            return Sampled(choice["token_ids"], told["token_logprobs"], top, choice["finish_reason"])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise SamplerError(
                f"server {self.base_url}: wanted a completion with token_ids, prompt_token_ids and logprobs of tokens "
                f"spelled token_id:N (vLLM 0.11 or newer), found {shorten(choice)}"
            ) from error

    def _refuse_raw_logprobs(self) -> None:
        """Sample one token under top-k 1 to check that the server reports processed log-probs.

        Under top-k 1 every other token is impossible; raw logits would still give it a finite log-prob.
        """
        prompt = self.team.encode(next(iter(self.team.local_agents)), "?")
        told = self._one_token(self._model, prompt, width=PROBE_WIDTH, top_k=1).values()
        if len(told) >= PROBE_WIDTH and min(told) > MASKED:
            raise SamplerError(
                f"server {self.base_url} tells log-probs of the raw logits, wanted those of the sampling "
                "distribution: start it with --logprobs-mode processed_logprobs"
            )

    def _first_token(self, agent: str, prompt: IntArray) -> Mapping[int, float]:
        return self._one_token(self._model_of(agent), prompt, width=WIDTH, top_k=0)

    def _one_token(self, model: str, prompt: IntArray, *, width: int, top_k: int) -> Mapping[int, float]:
        """Sample one token at temperature 1; return the log-probs of the `width` likeliest ones and its own."""
        sampling = {"temperature": 1.0, "top_p": 1.0, "max_tokens": 1, "seed": 0, "logprobs": width}
        choice = self._complete(model, prompt.tolist(), top_k=top_k, stop_token_ids=[], **sampling)
        return self._read(choice, prompt).top[0]

    def _post(self, route: str, body: dict[str, str]) -> None:
        self._try(route, lambda: self._client.post(f"/{route}", cast_to=str, body=body))

    def _try(self, what: str, ask: Callable[[], T]) -> T:
        from openai import APIConnectionError, InternalServerError, NotFoundError, OpenAIError

        try:
            return ask()
        except (OpenAIError, ValueError, AttributeError, IndexError, TypeError) as error:
            hint = ""
            if isinstance(error, APIConnectionError | InternalServerError):
                hint = last_error(self.base_url)
            elif isinstance(error, NotFoundError) and what.startswith("model"):
                hint = "; a server that was started again has no adapters: --resume loads them"
            elif isinstance(error, NotFoundError):
                hint = (
                    "; a vLLM server loads adapters if started with --enable-lora and "
                    "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True, as `marft vllm` does"
                )
            raise RemoteError(
                f"server {self.base_url}, {what}: {type(error).__name__}: {shorten(error)}{hint}"
            ) from error


def _id(name: str) -> int:
    if not name.startswith(ID_MARK):
        raise ValueError(name)
    return int(name.removeprefix(ID_MARK))
