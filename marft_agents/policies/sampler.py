"""Other engines that sample for a team while it learns (vLLM in this process, a server), and how they get its adapters.

The team's own generation needs none of this. Another engine rounds differently, so its log-probs are a little off the
trained model's: its actions say `exact=False`, and the learner corrects for the difference by truncated importance
sampling. Tokens go both ways as ids; no text is ever tokenised again.
"""

from __future__ import annotations

import math
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from marft_agents.generation.sampling import SamplingLaw
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.policies.adapter_files import folder_names, save_adapter
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.trajectory import Action, IntArray

MASKED = -1000.0  # engines report tokens that top-k or top-p took away as -inf or -9999


class SamplerError(RuntimeError):
    """An engine that can not sample for this team, or not as the law wants; says what to do."""


@dataclass(frozen=True)
class Sampled:
    """What an engine tells of one action.

    Attributes:
        token_ids: what was sampled, the end token included.
        logprobs: of each token, in nats, under the law after temperature, top-k and top-p.
        top: per position the log-probs of the likeliest tokens by id; read only where the law has a top-k.
        finish_reason: "stop" where a token ended the action, "length" where the limit did.
    """

    token_ids: Sequence[int]
    logprobs: Sequence[float]
    top: Sequence[Mapping[int, float]]
    finish_reason: str | None


def sole_base(team: LanguageModelTeam) -> AdaptedBase:
    """Return the base of a team that has one; an engine holds one base and the adapters on it."""
    if len(team.bases) != 1:
        names = ", ".join(base.name for base in team.bases)
        raise SamplerError(f"an engine samples on one base model; this team has {len(team.bases)}: {names}")
    return team.bases[0]


def num_logprobs(law: SamplingLaw) -> int:
    """Return how many log-probs per position an engine must tell, beside the sampled token's.

    Raises:
        SamplerError: top-p without top-k: what it leaves to choose from could be any number of tokens.
    """
    if law.restricts_support and not law.top_k:
        raise SamplerError(
            f"top_p = {law.top_p} without top_k: an engine tells the support only up to a top-k; set top_k (20, say)"
        )
    return law.top_k if law.restricts_support else 0


def to_action(team: LanguageModelTeam, agent: str, prompt: IntArray, sampled: Sampled) -> Action:
    """Make the record of an action that an engine sampled.

    Args:
        team: knows the agent's tokenizer, its end tokens and the law.
        agent: who acts.
        prompt: int32 [P], what the engine was fed.
        sampled: what it told.

    Raises:
        SamplerError: no tokens, log-probs that do not match them, or an end that the model does not know.
    """
    base, count = team.seat(agent).base, len(sampled.token_ids)
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
    support = _supports(sampled) if num_logprobs(team.law) else None
    return base.action(prompt, sampled.token_ids, sampled.logprobs, support, exact=False)


def _supports(sampled: Sampled) -> tuple[IntArray, ...]:
    return tuple(
        np.asarray(sorted({token} | {other for other, logprob in top.items() if logprob > MASKED}), np.int32)
        for token, top in zip(sampled.token_ids, sampled.top, strict=True)
    )


class AdapterVersions:
    """A team's adapters on disk for an engine to load, each version under a name that is never used twice.

    Engines keep what they computed of a prompt under an adapter's name: the same name with other weights would play
    stale prefixes. And a server may hold adapters of other runs, or of one that was killed.

    Args:
        team: whose adapters are written.
        folder: where, in PEFT's form; an engine elsewhere must see it under the same path.
    """

    def __init__(self, team: LanguageModelTeam, folder: Path) -> None:
        self.team = team
        self.folder = folder.resolve()
        self._run = secrets.token_hex(4)
        self._count = 0

    def write(self) -> dict[str, Path]:
        """Write all adapters as they are now; return policy -> folder, whose name is the version's name."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._count += 1
        names = folder_names(list(self.team.policies))
        written = {policy: self.folder / f"{name}-{self._run}-{self._count}" for policy, name in names.items()}
        for policy, path in written.items():
            save_adapter(self.team.seat(self.team.policies[policy][0]), path)
        return written

    def remove(self, written: Mapping[str, Path]) -> None:
        """Drop versions that no engine will load any more."""
        for path in written.values():
            shutil.rmtree(path)
