"""In-process vLLM as the sampler of a learning team: one engine, one LoRA slot per adapter.

Needs vLLM 0.11 or newer: `pip install 'marft[vllm]'` and a GPU with room for a second copy of the base, or a CPU and
the environment of `make vllm`.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from marft_agents.policies.canary import WIDTH, Canary
from marft_agents.policies.external_sampler import (
    AdapterVersions,
    Sampled,
    num_logprobs,
    sole_base,
    to_action,
    without_mixing,
)
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.policies.policy import Request
from marft_agents.policies.sampler_error import SamplerError
from marft_agents.trajectory import Action, IntArray
from marft_common.installation import pip_install

NOT_INSTALLED = (
    f"vLLM is not in this environment: {pip_install('vllm')} for a GPU; for a CPU, `make vllm` makes an environment "
    "with it"
)
LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # values allowed by vLLM for max_lora_rank


def lora_rank(rank: int) -> int:
    """Return the smallest `max_lora_rank` of vLLM that has room for a rank."""
    return next((size for size in LORA_RANKS if size >= rank), rank)


def cpu_arguments(max_model_len: int) -> dict[str, Any]:
    """Return the arguments that vLLM needs on a CPU, for prompts and actions of at most so many tokens.

    Its CPU worker fails at a request with a seed whose prompt is prefilled in chunks ("CPU Generator does not use
    offset"). Without chunks the longest prompt has to fit into one batch.
    """
    return {
        "enforce_eager": True,
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": max(max_model_len, 16384),
        "kv_cache_memory_bytes": 1 << 30,  # by default, vLLM takes most of the memory
    }


class VllmSampler:
    """Sampler that uses `vllm.LLM.generate`.

    Args:
        team: The learning team; its sampling parameters are used.
        folder: Folder in which adapters are written for the engine to load.
        gpu_memory_utilization: Share of the GPU memory that the engine takes for weights and KV cache; the rest is
            the learner's.
        canary: True to compare the engine's log-probs with the learner's after each `refresh`, see `policies.canary`.
        **engine: Further arguments of `vllm.LLM`; they override those set here.

    Raises:
        SamplerError: vLLM is missing, or cannot sample for this team (several bases, a random model,
            top-p without top-k).
    """

    def __init__(
        self,
        team: LanguageModelTeam,
        folder: Path,
        *,
        gpu_memory_utilization: float = 0.4,
        canary: bool = True,
        **engine: Any,
    ) -> None:
        base = sole_base(team)
        self._top = num_logprobs(team.sampling)
        self._vllm, self._lora = _import("vllm"), _import("vllm.lora.request")
        source = base.peft.config.name_or_path
        if not source:
            raise SamplerError(f"vLLM loads models from a folder or hub id; {base.name!r} is neither")
        rank = max(base.lora_config(policy).r for policy in team.policies)
        arguments: dict[str, Any] = {
            "model": source,
            "dtype": str(next(base.trunk.parameters()).dtype).removeprefix("torch."),
            "max_model_len": max(team.windows.values()),
            "gpu_memory_utilization": gpu_memory_utilization,
            "enable_lora": True,
            "max_loras": len(team.policies),
            "max_lora_rank": lora_rank(rank),
            "logprobs_mode": "processed_logprobs",  # after temperature, top-k and top-p
            "max_logprobs": max(WIDTH, self._top),
            "generation_config": "vllm",  # the team's sampling parameters, none from the model folder
        }
        if base.device.type == "cpu":
            arguments |= cpu_arguments(arguments["max_model_len"])
        self.team = team
        self._engine = self._vllm.LLM(**{**arguments, **engine})
        self._versions = AdapterVersions(team, folder)
        self._written: dict[str, Path] = {}
        self._loras: dict[str, Any] = {}
        self._numbers = itertools.count(1)
        self._canary = Canary(team, "vLLM") if canary else None

    def refresh(self) -> None:
        """Write the adapters; the engine loads each on its first request and evicts the oldest.

        Raises:
            SamplerError: The engine samples from something else than these adapters.
        """
        old, self._written = self._written, self._versions.write()
        self._loras = {
            policy: self._lora.LoRARequest(lora_name=path.name, lora_int_id=next(self._numbers), lora_path=str(path))
            for policy, path in self._written.items()
        }
        self._versions.remove(old)
        if self._canary is not None:
            self._canary.check(self._first_token)

    def act(self, requests: Sequence[Request]) -> list[Action]:
        """Sample one action per request, in one batch with mixed adapters and one without adapters.

        Raises:
            SamplerError: `refresh` was never called, or the engine's output is not as wanted.
            ContextOverflowError: A prompt is too long, and the team's `overflow` is "error".
        """
        return self.team.answer(requests, without_mixing(self.team, self._generate))

    def _generate(self, requests: Sequence[Request], prompts: Sequence[IntArray]) -> list[Action]:
        outputs = self._engine.generate(
            [{"prompt_token_ids": prompt.tolist()} for prompt in prompts],
            [self._sampling(request) for request in requests],
            lora_request=[self._lora_of(request.agent) for request in requests],
            use_tqdm=False,
        )
        return [
            to_action(self.team, request.agent, prompt, _read(output.outputs[0]))
            for request, prompt, output in zip(requests, prompts, outputs, strict=True)
        ]

    def _first_token(self, agent: str, prompt: IntArray) -> Mapping[int, float]:
        sampling = self._vllm.SamplingParams(temperature=1.0, max_tokens=1, seed=0, logprobs=WIDTH, detokenize=False)
        tokens = [{"prompt_token_ids": prompt.tolist()}]
        [output] = self._engine.generate(tokens, [sampling], lora_request=[self._lora_of(agent)], use_tqdm=False)
        return _read(output.outputs[0]).top[0]

    def close(self) -> None:
        """Drop the engine and delete the adapters from disk."""
        self._engine = None
        self._versions.remove(self._written)
        self._written = {}

    def _sampling(self, request: Request) -> Any:
        sampling = self.team.sampling
        return self._vllm.SamplingParams(
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            max_tokens=sampling.max_new_tokens,
            seed=int(request.generator.integers(2**31)),
            logprobs=self._top,
            stop_token_ids=sorted(self.team.local_agent(request.agent).base.end_ids),
            detokenize=False,
        )

    def _lora_of(self, agent: str) -> Any:
        adapter = self.team.local_agent(agent).adapter
        if adapter is None:
            return None
        if adapter not in self._loras:
            raise SamplerError("refresh() has to be called before act(): the engine has no adapters yet")
        return self._loras[adapter]


def _read(output: Any) -> Sampled:
    tokens = list(output.token_ids)
    top = [{token: told.logprob for token, told in position.items()} for position in output.logprobs]
    return Sampled(tokens, [told[token] for token, told in zip(tokens, top, strict=True)], top, output.finish_reason)


def _import(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SamplerError(f"{NOT_INSTALLED} ({error})") from error
