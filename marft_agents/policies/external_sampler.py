"""External sampling engines (in-process vLLM, a server): shared code and adapter hand-over.

The team's own generation does not use this module. Another engine rounds differently, so its log-probs differ
slightly from the trained model's. Its actions have `exact=False`, and the learner corrects the difference by
truncated importance sampling. Tokens are exchanged as ids; no text is tokenised again.
"""

from __future__ import annotations

import math
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.policies.adapter_files import folder_names, save_adapter
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.policies.policy import Request
from marft_agents.policies.sampler_error import SamplerError
from marft_agents.trajectory import Action, IntArray

Answer = Callable[[Sequence[Request], Sequence[IntArray]], list[Action]]
MASKED = -1000.0  # engines report tokens excluded by top-k or top-p as -inf or -9999


@dataclass(frozen=True)
class Sampled:
    """One action as returned by an engine.

    Attributes:
        token_ids: Sampled tokens, the end token included.
        logprobs: Log-prob of each token in nats, after temperature, top-k and top-p.
        top: Per position the log-probs of the likeliest tokens by id; read only with an active top-k.
        finish_reason: "stop" if a token ended the action, "length" if the token limit did.
    """

    token_ids: Sequence[int]
    logprobs: Sequence[float]
    top: Sequence[Mapping[int, float]]
    finish_reason: str | None


def sole_base(team: LanguageModelTeam) -> AdaptedBase:
    """Return the only local base model of a team, since an engine holds one base and its adapters."""
    if len(team.bases) != 1:
        names = ", ".join(base.name for base in team.bases)
        raise SamplerError(f"an engine samples on one base model; this team has {len(team.bases)}: {names}")
    return team.bases[0]


def num_logprobs(sampling: SamplingParams) -> int:
    """Return the number of log-probs an engine must report per position, besides the sampled token's.

    Raises:
        SamplerError: Top-p without top-k, whose support could be any number of tokens.
    """
    if sampling.restricts_support and not sampling.top_k:
        raise SamplerError(
            f"top_p = {sampling.top_p} without top_k: an engine tells the support only up to a top-k; set top_k "
            "(20, say)"
        )
    return sampling.top_k if sampling.restricts_support else 0


def to_action(team: LanguageModelTeam, agent: str, prompt: IntArray, sampled: Sampled) -> Action:
    """Build the `Action` record of tokens sampled by an engine.

    Args:
        team: The team; gives the agent's tokenizer, its end tokens and the sampling parameters.
        agent: Id of the acting agent.
        prompt: Prompt tokens fed to the engine, int32 [P].
        sampled: Tokens and log-probs from the engine.

    Raises:
        SamplerError: No tokens, log-probs that do not match them, or an end token that the model does not have.
    """
    base, count = team.local_agent(agent).base, len(sampled.token_ids)
    if not count or len(sampled.logprobs) != count or not all(map(math.isfinite, sampled.logprobs)):
        raise SamplerError(
            f"agent {agent!r}: wanted at least one token with a finite log-prob each, found {count} tokens and "
            f"log-probs {list(sampled.logprobs)[:8]}"
        )
    stopped = sampled.token_ids[-1] in base.end_ids
    if sampled.finish_reason not in ("stop", "length") or (sampled.finish_reason == "stop" and not stopped):
        raise SamplerError(
            f"agent {agent!r}: an action ended by {sampled.finish_reason!r} after token {sampled.token_ids[-1]}, "
            f"wanted 'length', or 'stop' after one of the end tokens {sorted(base.end_ids)}: start a vLLM server with "
            "--generation-config vllm, so that the model's folder adds no stop tokens"
        )
    if not num_logprobs(team.sampling):  # every token could be sampled
        return base.action(prompt, sampled.token_ids, sampled.logprobs, None, exact=False)
    support: list[IntArray] = []
    for token, top in zip(sampled.token_ids, sampled.top, strict=True):
        allowed = {token} | {other for other, logprob in top.items() if logprob > MASKED}
        support.append(np.asarray(sorted(allowed), np.int32))
    return base.action(prompt, sampled.token_ids, sampled.logprobs, tuple(support), exact=False)


def without_mixing(team: LanguageModelTeam, sample: Answer) -> Answer:
    """Return `sample`, called first for all requests that have an adapter, and then for those that have none.

    In a batch with both, vLLM's kernels for CPUs apply one of the adapters to requests without one
    (vllm-project/vllm#48421).
    """

    def split(requests: Sequence[Request], prompts: Sequence[IntArray]) -> list[Action]:
        adapted = [team.local_agent(request.agent).adapter is not None for request in requests]
        actions: dict[int, Action] = {}
        for part in (True, False):
            rows = [row for row, has_adapter in enumerate(adapted) if has_adapter == part]
            if rows:
                sampled = sample([requests[row] for row in rows], [prompts[row] for row in rows])
                actions.update(zip(rows, sampled, strict=True))
        return [actions[row] for row in range(len(requests))]

    return split


class AdapterVersions:
    """Versions of a team's adapters on disk, each under a name that is never reused.

    Engines cache prompt prefixes by adapter name, so new weights under an old name would use stale KV entries. A server
    may also hold adapters of other runs, or of a killed one.

    Args:
        team: Team that owns the adapters.
        folder: Parent folder, in PEFT format; an engine on another machine must see it under the same path.
    """

    def __init__(self, team: LanguageModelTeam, folder: Path) -> None:
        self.team = team
        self.folder = folder.resolve()
        self._run = secrets.token_hex(4)
        self._count = 0

    def write(self) -> dict[str, Path]:
        """Write all current adapters; return policy -> folder, whose name is the version's name."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._count += 1
        names = folder_names(list(self.team.policies))
        written = {policy: self.folder / f"{name}-{self._run}-{self._count}" for policy, name in names.items()}
        for policy, path in written.items():
            save_adapter(self.team.local_agent(self.team.policies[policy][0]), path)
        return written

    def remove(self, written: Mapping[str, Path]) -> None:
        """Delete versions that no engine will load again."""
        for path in written.values():
            shutil.rmtree(path)
