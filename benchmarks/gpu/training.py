"""End-to-end training benchmark: throughput, peak memory, and utilisation of the measured device limits.

A hook at the first block of the trunk counts forward passes, and token positions with and without gradient, padding
included. Floating-point operations are 2 per weight and position in the forward pass and 2 in the backward pass. The
weights are frozen, so their gradient is not computed. Attention scores and adapters are not counted. The shares of the
limits are therefore lower bounds.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pettingzoo.utils.wrappers import BaseWrapper

from baselines.experiment.environments import factory
from baselines.experiment.samplers import OWN, open_sampler
from benchmarks.gpu.benchmark_models import Shape
from benchmarks.gpu.peak_throughput import PeakThroughput, synchronise
from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.models.adapted_base import AdaptedBase
from marft_agents.models.base_settings import LoraSettings
from marft_agents.policies.language_model import LanguageModelTeam, LocalAgent
from marft_agents.policies.policy import Policy, Request
from marft_agents.policies.sampler_error import SamplerError
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.trainer import Trainer
from marft_agents.trajectory import Action
from marft_envs import Team
from marft_envs.dependency import independent


class CoinReward(BaseWrapper[str, str, str]):
    """Wrapper that gives all agents reward 0 or 1 after each action, by the action's checksum.

    A model with random weights solves no problem. All its groups would have zero advantage, and the update would skip
    their backward pass.
    """

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Reset the environment; all rewards are 0."""
        super().reset(seed, options)
        self.rewards = dict(self.env.rewards)

    def step(self, action: str) -> None:
        """Step the environment, then replace the rewards."""
        super().step(action)
        self.rewards = dict.fromkeys(self.env.rewards, float(zlib.crc32((action or "").encode()) & 1))


@dataclass(frozen=True)
class Plan:
    """Size of the training run; one warm-up update comes before the `updates` measured ones."""

    updates: int = 3
    groups: int = 8
    group_size: int = 16
    max_new_tokens: int = 128


@dataclass
class Work:
    """Amount of computation in one phase, rollout or update.

    Attributes:
        passes: Number of forward passes through the trunk.
        positions: Token positions computed without gradient.
        gradient_positions: Token positions computed with gradient.
        actions: Number of sampled actions.
        action_tokens: Number of sampled tokens.
        prompt_tokens: Tokens of all prompts; shared prefixes count for each prompt.
    """

    passes: int = 0
    positions: int = 0
    gradient_positions: int = 0
    actions: int = 0
    action_tokens: int = 0
    prompt_tokens: int = 0


@dataclass
class Meter:
    """Policy that counts the computation of its rollouts and of the team's updates.

    Attributes:
        team: Team that is trained.
        policy: Policy that plays; None: the team itself. An engine's passes are not counted.
    """

    team: LanguageModelTeam
    policy: Policy | None = None
    acting: bool = False
    playing: Work = field(default_factory=Work)
    learning: Work = field(default_factory=Work)

    def __post_init__(self) -> None:
        for base in self.team.bases:
            base.trunk.layers[0].register_forward_hook(self._count)

    def _count(self, _layer: Any, _inputs: Any, output: Any) -> None:
        hidden = output[0] if isinstance(output, tuple) else output
        work = self.playing if self.acting else self.learning
        work.passes += 1
        positions = hidden.shape[:-1].numel()
        if torch.is_grad_enabled():
            work.gradient_positions += positions
        else:
            work.positions += positions

    def act(self, requests: Sequence[Request]) -> list[Action]:
        """Sample the team's actions and count their tokens."""
        self.acting = True
        try:
            actions = (self.policy or self.team).act(requests)
        finally:
            self.acting = False
        self.playing.actions += len(actions)
        self.playing.action_tokens += sum(len(action.token_ids) for action in actions)
        self.playing.prompt_tokens += sum(len(action.prompt_ids) for action in actions)
        return actions

    def reset(self) -> None:
        """Set all counts to zero."""
        self.playing, self.learning = Work(), Work()


def shaped_team(
    shape: Shape, agents: Sequence[str], device: torch.device, *, max_new_tokens: int, max_batch: int = 256
) -> LanguageModelTeam:
    """Return a team on one base model with a LoRA adapter per agent, which generates `max_batch` actions at once."""
    base = AdaptedBase(shape.build(device), agents, LoraSettings(), seed=0)
    local_agents = {agent: LocalAgent(base, agent) for agent in agents}
    return LanguageModelTeam(local_agents, SamplingParams(max_new_tokens=max_new_tokens), max_batch=max_batch)


def independent_team(agents: int) -> Team:
    """Return a team of solvers that do not see each other."""
    solver = Team.preset("solo").profiles[0]
    profiles = tuple(dataclasses.replace(solver, name=f"actor_{i}") for i in range(agents))
    return Team(f"independent_{agents}", profiles, independent())


def measure_training(
    shape: Shape, team: str | int, plan: Plan, limits: PeakThroughput, device: torch.device, sampler: str = OWN
) -> dict[str, Any]:
    """Train a team on embedded word problems; return the measurements by name, with the unit in the name.

    Args:
        shape: Shape of the base model.
        team: Name of a preset, or the number of independent agents.
        plan: Size of the run.
        limits: Measured limits of the device.
        device: Device of the models.
        sampler: What plays, as in `--sampler`.

    Returns:
        The measurements. If the device runs out of memory or the sampler is missing, the only one is "error".
    """
    name = team if isinstance(team, str) else f"{team} independent"
    row: dict[str, Any] = {"model": shape.name, "team": name, "sampler": sampler}
    keywords: dict[str, Any] = {"data": "embedded:stories", "split": "train"}
    keywords |= {} if isinstance(team, str) else {"team": independent_team(team).to_dict()}
    make_env = factory(f"marft/gsm8k_{team if isinstance(team, str) else 'solo'}-v0", keywords)
    try:
        return row | _measure(shape, make_env, plan, limits, device, sampler)
    except (torch.OutOfMemoryError, SamplerError) as error:
        return row | {"error": str(error).split(". ", 1)[0]}
    finally:
        if device.type == "cuda":
            torch.cuda.empty_cache()


def _measure(
    shape: Shape,
    make_env: Callable[[], Any],
    plan: Plan,
    limits: PeakThroughput,
    device: torch.device,
    sampler: str,
) -> dict[str, Any]:
    team = shaped_team(shape, make_env().possible_agents, device, max_new_tokens=plan.max_new_tokens)
    with tempfile.TemporaryDirectory() as folder, open_sampler(sampler, team, Path(folder)) as policy:
        meter = Meter(team, policy)
        return _train(shape, make_env, plan, limits, device, meter) | (
            {} if sampler == OWN else {"rollout_share_of_matmul": None, "rollout_share_of_copy": None}
        )


def _train(
    shape: Shape, make_env: Callable[[], Any], plan: Plan, limits: PeakThroughput, device: torch.device, meter: Meter
) -> dict[str, Any]:
    team = meter.team
    learner = Learner(team, LearnerSettings(), total_updates=1 + plan.updates)
    schedule = TrainingSchedule(updates=1 + plan.updates, groups=plan.groups, group_size=plan.group_size, num_envs=256)
    trainer = Trainer(lambda: CoinReward(make_env()), team, learner, schedule, policy=meter)
    trainer.step()
    meter.reset()
    synchronise(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    started = time.perf_counter()
    steps = [trainer.step() for _ in range(plan.updates)]
    synchronise(device)
    wall_s = time.perf_counter() - started
    play_s, learn_s = (sum(step[f"seconds/{phase}"] for step in steps) for phase in ("rollout", "update"))
    tokens = meter.playing.action_tokens
    ratios = [v for step in steps for name, v in step.items() if name.endswith("first_pass_log_ratio_max")]
    return {
        "seconds_per_update": wall_s / plan.updates,
        "rollout_tokens_per_s": tokens / play_s,
        "update_tokens_per_s": tokens / learn_s,
        "update_sequence_tokens_per_s": (tokens + meter.playing.prompt_tokens) / learn_s,
        "prompt_tokens_mean": meter.playing.prompt_tokens / meter.playing.actions,
        "peak_memory_gib": torch.cuda.max_memory_allocated(device) / 2**30 if device.type == "cuda" else None,
        "first_pass_log_ratio_max": float(np.max(ratios)) if ratios else None,
        **shares(meter, team.bases[0], play_s, learn_s, limits),
    }


def shares(meter: Meter, base: AdaptedBase, play_s: float, learn_s: float, limits: PeakThroughput) -> dict[str, float]:
    """Return the utilisation of the device limits by phase, 0 to 1.

    Generation reads all weights once per forward pass and is therefore compared with the bandwidth too.
    """
    if not (meter.playing.passes or meter.policy not in (None, meter.team)) or not meter.learning.gradient_positions:
        raise RuntimeError("no forward pass was seen at the first block of the trunk: the count needs a new place")
    blocks = sum(p.numel() for name, p in base.trunk.layers.named_parameters() if "lora_" not in name)
    head = base.head.weight.numel()
    played, learned, tokens = meter.playing, meter.learning, meter.playing.action_tokens
    play_flop = 2 * blocks * played.positions + 2 * head * tokens
    learn_flop = 2 * blocks * (learned.positions + 2 * learned.gradient_positions) + 4 * head * tokens
    read = (blocks + head) * base.head.weight.element_size() * played.passes
    return {
        "rollout_share_of_matmul": play_flop / play_s / 1e12 / limits.matmul_tflops,
        "rollout_share_of_copy": read / play_s / 1e9 / limits.copy_gb_s,
        "update_share_of_matmul": learn_flop / learn_s / 1e12 / limits.matmul_tflops,
    }
