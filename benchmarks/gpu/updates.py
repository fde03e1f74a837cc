"""Rows of updates: our learner and TRL's GRPO on the same recorded samples.

Model FLOPs utilisation counts distinct tokens: 2 operations per weight of the trunk in the forward pass and 2 in the
backward pass, whose frozen weights need no gradient of their own, and the same for the head at the tokens of actions.
The sum by second, over the rate of a large matrix product measured in the same run, is the utilisation.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.benchmark_models import Shape
from benchmarks.gpu.generation import kernels_of, seconds_of_one, tokenizer_of
from benchmarks.gpu.peak_throughput import PeakThroughput
from benchmarks.gpu.record import peak_gib, release_memory
from benchmarks.gpu.training import shaped_team
from benchmarks.training import marft_grpo, trl_grpo
from benchmarks.training.workload import END_TOKEN, RecordedTurn, Workload, make_workload
from benchmarks.training.workload import Shape as WorkloadShape
from marft_agents.learning.algorithms import algorithm as algorithm_named
from marft_agents.learning.algorithms import learner_settings
from marft_agents.learning.learner import Learner
from marft_agents.models.adapted_base import AdaptedBase


@dataclasses.dataclass(frozen=True)
class Samples:
    """Recorded samples of a duo to train on.

    Attributes:
        shape: Shape of the base model.
        device: Device of the model.
        groups: Number of problems.
        group_size: Episodes of each problem.
        cap: Longest action in tokens; the mean is half of it.
        examples: Repetitions of the worked examples in the prompt.
        shared: True where answers of a group share beginnings, as they do late in training.
    """

    shape: Shape
    device: torch.device
    groups: int = 8
    group_size: int = 16
    cap: int = 128
    examples: int = 1
    shared: bool = False

    def workload(self) -> Workload:
        """Return the samples; log-probs are zero, a bfloat16 learner recomputes them."""
        size = WorkloadShape(
            groups=self.groups,
            group_size=self.group_size,
            answer=max(self.cap // 2, 1),
            cap=self.cap,
            examples=self.examples,
        )
        made = make_workload(tokenizer_of(self.shape), "", size)
        turns = share_beginnings(made.turns, self.group_size) if self.shared else made.turns
        return made.with_turns(dataclasses.replace(turn, logprobs=(0.0,) * len(turn.token_ids)) for turn in turns)


def share_beginnings(turns: Sequence[RecordedTurn], group_size: int) -> list[RecordedTurn]:
    """Let each answer begin as the first one of its group does, for a uniformly drawn part of its length."""
    rng, found = np.random.default_rng(0), []
    for start in range(0, len(turns), group_size):
        group = turns[start : start + group_size]
        for turn in group:
            common = group[0].token_ids[: int(rng.integers(len(turn.token_ids)))]
            common = tuple(token for token in common if token != END_TOKEN)
            found.append(dataclasses.replace(turn, token_ids=(*common, *turn.token_ids[len(common) :])))
    return found


def distinct_tokens(sequences: Sequence[tuple[int, ...]]) -> int:
    """Return the number of distinct non-empty prefixes: tokens that a pass without repetition computes."""
    ordered = sorted(sequences)
    total = sum(map(len, ordered))
    for left, right in itertools.pairwise(ordered):
        total -= sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))
    return total


def update_flop(workload: Workload, base: AdaptedBase) -> float:
    """Return the operations of one update over distinct tokens, see the module's docstring."""
    blocks: int = sum(p.numel() for name, p in base.trunk.layers.named_parameters() if "lora_" not in name)
    positions = sum(
        distinct_tokens([(*turn.prompt_ids, *turn.token_ids) for turn in workload.of(agent)])
        for agent in workload.agents
    )
    head: int = base.head.weight.numel()
    return 4.0 * float(blocks * positions + head * workload.tokens)


def own_learner(plan: Samples, workload: Workload, algorithm: str, settings: Mapping[str, Any]) -> Learner:
    """Return a learner for the samples, with the defaults of an algorithm but for `settings`."""
    team = shaped_team(plan.shape, workload.agents, plan.device, max_new_tokens=plan.cap)
    for base in team.bases:
        base.end_ids = frozenset({END_TOKEN})
    knobs = dict(settings) if algorithm_named(algorithm).critic else {"kl_weight": 0.0, **settings}
    return Learner(team, learner_settings(algorithm, **knobs))


def own(plan: Samples, limits: PeakThroughput, algorithm: str = "grpo", **settings: Any) -> Mapping[str, Any]:
    """Measure an update by our learner, the second one; the first loads and compiles kernels."""
    workload = plan.workload()
    learner = own_learner(plan, workload, algorithm, settings)
    batch = marft_grpo.trajectories(workload)
    first = seconds_of_one(lambda: learner.update(batch), plan.device)
    release_memory()
    seconds = seconds_of_one(lambda: learner.update(batch), plan.device)
    flop = update_flop(workload, learner.team.bases[0])
    return {
        "algorithm": algorithm,
        **_figures(workload, seconds, plan.device),
        "mfu": flop / seconds / 1e12 / limits.matmul_tflops,
        "first_update_s": first,
    }


def profiled(plan: Samples, algorithm: str = "grpo") -> Mapping[str, Any]:
    """Count kernels, launches and busy time of an update by our learner."""
    workload = plan.workload()
    learner = own_learner(plan, workload, algorithm, {})
    batch = marft_grpo.trajectories(workload)
    learner.update(batch)
    seconds = seconds_of_one(lambda: learner.update(batch), plan.device)
    kernels, launches, busy_s = kernels_of(lambda: learner.update(batch), plan.device)
    return {
        "seconds": seconds,
        "kernels": kernels,
        "launches": launches,
        "busy_s": busy_s,
        "busy_share": busy_s / seconds,
    }


def trl(plan: Samples, *, checkpointing: bool) -> Mapping[str, Any]:
    """Measure an update by TRL's GRPO trainer, one agent after the other; `checkpointing` is its default."""
    on_cuda = plan.device.type == "cuda"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    with tempfile.TemporaryDirectory() as folder:
        built = plan.shape.build(torch.device("cpu"), torch.bfloat16 if on_cuda else torch.float32)
        built.model.save_pretrained(folder)
        tokenizer_of(plan.shape).save_pretrained(folder)
        del built
        workload = dataclasses.replace(plan.workload(), model=folder)
        trainer = trl_grpo.make_trainer(
            workload, checkpointing, "bfloat16" if on_cuda else "float32", use_cpu=not on_cuda
        )
        trl_grpo.update(trainer)
        release_memory()
        seconds = seconds_of_one(lambda: trl_grpo.update(trainer), plan.device)
    return {"checkpointing": checkpointing, **_figures(workload, seconds, plan.device)}


def _figures(workload: Workload, seconds: float, device: torch.device) -> dict[str, Any]:
    return {
        "samples": len(workload.turns),
        "action_tokens": workload.tokens,
        "prompt_tokens": workload.summary()["prompt_mean"],
        "tokens_per_s": workload.tokens / seconds,
        "seconds": seconds,
        "peak_gib": peak_gib(device),
    }
