"""Numerical agreement of bfloat16 and float32 on the device with float32 on the CPU: log-probs and gradients.

The reference samples the actions once. Each precision then scores the same actions with the code of training. The
gradient is that of the mean log-prob per token with respect to the adapters. Actions are weighted by +1 and -1
alternately, in place of advantages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from baselines.experiment.environments import factory
from benchmarks.gpu.benchmark_models import Shape
from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.models.base_settings import LoraSettings
from marft_agents.policies.language_model import LanguageModelTeam, LocalAgent
from marft_agents.policies.token_log_probs import action_hidden, score_tokens
from marft_agents.rollouts.rollout import collect, training_episodes
from marft_agents.trajectory import SampledTurn

STIR = 0.02  # std of noise on the adapters: with B = 0, as at initialisation, A has no gradient


@dataclass(frozen=True)
class Tolerance:
    """Maximum deviation of a precision from the reference.

    Attributes:
        logprob_mean: Mean absolute difference of token log-probs, in nats.
        logprob_max: Largest absolute difference of a token's log-prob, in nats.
        gradient: Norm of the gradient difference, relative to the norm of the reference gradient.
    """

    logprob_mean: float
    logprob_max: float
    gradient: float


TOLERANCES = {
    torch.float32: Tolerance(1e-4, 2e-3, 2e-3),
    torch.bfloat16: Tolerance(0.05, 1.0, 0.2),
}


def measure_agreement(shape: Shape, device: torch.device, *, groups: int, max_new_tokens: int) -> list[dict[str, Any]]:
    """Score the same actions in each precision of the device; return a row per precision, with the key "agrees"."""
    make_env = factory("marft/gsm8k_duo-v0", {"data": "embedded:stories", "split": "train"})
    agents, cpu = make_env().possible_agents, torch.device("cpu")
    sampling = SamplingParams(max_new_tokens=max_new_tokens)
    reference = _team(shape, agents, sampling, cpu, torch.float32)
    played = collect(make_env, reference, training_episodes(0, 0, groups, 2), seed=0)
    turns = [turn for trajectory in played for turn in trajectory.turns]
    logprobs, gradient = _score(reference, turns)
    adapters = {agent: _tensors(reference, agent) for agent in agents}
    rows = []
    for dtype in [torch.bfloat16] if device.type == "cpu" else [torch.float32, torch.bfloat16]:
        team = _team(shape, agents, sampling, device, dtype)
        for agent in agents:
            for mine, theirs in zip(_tensors(team, agent), adapters[agent], strict=True):
                mine.data.copy_(theirs)
        rows.append(compare(_score(team, turns), (logprobs, gradient), device, dtype))
        del team
    return rows


def _team(
    shape: Shape, agents: list[str], sampling: SamplingParams, device: torch.device, dtype: torch.dtype
) -> LanguageModelTeam:
    base = AdaptedBase(shape.build(device, dtype), agents, LoraSettings(), seed=0)
    generator = torch.Generator().manual_seed(0)
    for agent in agents:
        for tensor in base.parameters(agent).values():
            tensor.data += STIR * torch.randn(tensor.shape, generator=generator).to(tensor)
    return LanguageModelTeam({agent: LocalAgent(base, agent) for agent in agents}, sampling)


def _tensors(team: LanguageModelTeam, agent: str) -> list[Any]:
    return list(team.local_agent(agent).base.parameters(agent).values())


def _score(team: LanguageModelTeam, turns: list[SampledTurn]) -> tuple[Tensor, Tensor]:
    """Return the log-probs [tokens], agent by agent, and the gradient [weights] of all adapters; float32 on the CPU."""
    logprobs: list[Tensor] = []
    gradients: list[Tensor] = []
    for agent, local in team.local_agents.items():
        actions = [turn.action for turn in turns if turn.agent == agent]
        prompts, tokens = [a.prompt_ids for a in actions], [a.token_ids for a in actions]
        signs = np.repeat([(-1.0) ** i for i in range(len(actions))], [len(ids) for ids in tokens])
        device = local.base.device
        with local.base.active_adapter(local.adapter):
            hidden = action_hidden(local.base.trunk, prompts, tokens, device)
            flat = torch.as_tensor(np.concatenate(tokens), dtype=torch.long, device=device)
            told = score_tokens(local.base.head, hidden, flat, team.sampling).logprobs
        loss = -(told * torch.as_tensor(signs, dtype=told.dtype, device=device)).mean()
        gradients += torch.autograd.grad(loss, _tensors(team, agent))
        logprobs.append(told.detach())
    return torch.cat(logprobs).float().cpu(), torch.cat([g.flatten().float().cpu() for g in gradients])


def compare(
    found: tuple[Tensor, Tensor], wanted: tuple[Tensor, Tensor], device: torch.device, dtype: torch.dtype
) -> dict[str, Any]:
    """Return the deviations of log-probs and gradient from the reference, and whether they are within tolerance."""
    difference = (found[0] - wanted[0]).abs()
    row = {
        "logprob_mean": difference.mean().item(),
        "logprob_max": difference.max().item(),
        "gradient": ((found[1] - wanted[1]).norm() / wanted[1].norm()).item(),
    }
    tolerance = TOLERANCES[dtype]
    agrees = all(value <= getattr(tolerance, name) for name, value in row.items())  # NaN fails
    cosine = torch.nn.functional.cosine_similarity(found[1], wanted[1], dim=0).item()
    return {
        "device": device.type,
        "dtype": str(dtype).removeprefix("torch."),
        "tokens": len(difference),
        **row,
        "gradient_cosine": cosine,
        "agrees": agrees,
    }
