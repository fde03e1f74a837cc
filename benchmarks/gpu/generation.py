"""Rows of generation: our engine, transformers' `generate` and its `generate_batch`, on the same prompts.

All contenders sample from the whole vocabulary at temperature 1. No token ends an action, so each has `new` tokens.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.benchmark_models import Shape, shaped_tokenizer
from benchmarks.gpu.peak_throughput import synchronise
from benchmarks.gpu.record import peak_gib
from benchmarks.gpu.training import shaped_team
from benchmarks.training.hf_generate import FULL_VOCABULARY, sample, with_lora
from benchmarks.training.workload import RecordedTurn, make_workload
from benchmarks.training.workload import Shape as WorkloadShape
from marft_agents.models.pretrained import load_tokenizer
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.policies.policy import Request

GROUP_SIZE = 16  # samples of one prompt


@dataclasses.dataclass(frozen=True)
class Decoding:
    """One batch to generate.

    Attributes:
        shape: Shape of the base model.
        device: Device of the model.
        rows: Number of actions, in groups of `GROUP_SIZE` with a common prompt.
        new: Tokens of each action.
        adapters: Number of adapters that the rows use in turn.
        examples: Repetitions of the worked examples in the prompt, which set its length.
    """

    shape: Shape
    device: torch.device
    rows: int = 256
    new: int = 64
    adapters: int = 1
    examples: int = 1

    def turns(self) -> tuple[RecordedTurn, ...]:
        """Return the prompts, one turn per row."""
        groups = -(-self.rows // GROUP_SIZE)
        size = WorkloadShape(
            agents=1,
            groups=groups,
            group_size=GROUP_SIZE,
            answer=max(self.new // 2, 1),
            cap=self.new,
            examples=self.examples,
        )
        return make_workload(tokenizer_of(self.shape), "", size).turns[: self.rows]

    def figures(self, seconds: float) -> dict[str, Any]:
        """Return the figures of a run that took `seconds`."""
        return {
            "rows": self.rows,
            "new_tokens": self.new,
            "tokens_per_s": self.rows * self.new / seconds,
            "seconds": seconds,
            "peak_gib": peak_gib(self.device),
        }


def tokenizer_of(shape: Shape) -> Any:
    """Return the tokenizer of a shape without its model."""
    return shaped_tokenizer(shape.vocabulary) if shape.width else load_tokenizer(shape.name)


def seconds_of_one(work: Callable[[], object], device: torch.device) -> float:
    """Return the wall-clock seconds of one call, queued GPU work included."""
    synchronise(device)
    started = time.perf_counter()
    work()
    synchronise(device)
    return time.perf_counter() - started


def endless_team(plan: Decoding) -> LanguageModelTeam:
    """Return a team of `adapters` agents on one base, whose actions end at the limit only."""
    agents = [f"agent_{i}" for i in range(plan.adapters)]
    team = shaped_team(plan.shape, agents, plan.device, max_new_tokens=plan.new, max_batch=plan.rows)
    team.bases[0].end_ids = frozenset()
    return team


def play(team: LanguageModelTeam, turns: tuple[RecordedTurn, ...]) -> None:
    """Generate an action for each turn; the team's agents take them in turn."""
    agents = [team.agents[i % len(team.agents)] for i in range(len(turns))]
    team.act(
        [
            Request(agent, turn.observation, np.random.default_rng([7, i]))
            for i, (agent, turn) in enumerate(zip(agents, turns, strict=True))
        ]
    )


def own(plan: Decoding) -> Mapping[str, Any]:
    """Measure our engine; the first call, which loads kernels and captures graphs, is a figure of its own."""
    team, turns = endless_team(plan), plan.turns()
    first = seconds_of_one(lambda: play(team, turns), plan.device)
    seconds = seconds_of_one(lambda: play(team, turns), plan.device)
    return {
        "adapters": plan.adapters,
        "prompt_tokens": float(np.mean([len(turn.prompt_ids) for turn in turns])),
        **plan.figures(seconds),
        "first_call_s": first,
    }


def adapted_model(plan: Decoding) -> Any:
    """Return the base of a plan with one LoRA adapter, as PEFT's users have it."""
    return with_lora(plan.shape.build(plan.device).model).eval()


def transformers_generate(plan: Decoding) -> Mapping[str, Any]:
    """Measure `generate` of transformers with one PEFT adapter, the batch padded on the left."""
    model, turns = adapted_model(plan), plan.turns()
    prompts = [turn.prompt_ids for turn in turns]

    def generate() -> None:
        sample(model, prompts, plan.new, min_new_tokens=plan.new)

    generate()
    return plan.figures(seconds_of_one(generate, plan.device))


def transformers_generate_batch(plan: Decoding) -> Mapping[str, Any]:
    """Measure transformers' continuous batching with one PEFT adapter."""
    from transformers import GenerationConfig
    from transformers.generation.configuration_utils import ContinuousBatchingConfig

    model, turns = adapted_model(plan).base_model.model, plan.turns()
    config = GenerationConfig(
        **FULL_VOCABULARY,
        max_new_tokens=plan.new,
        eos_token_id=-1,  # no token: every answer has its full length
        pad_token_id=0,
    )
    prompts = [list(turn.prompt_ids) for turn in turns]
    # sized by itself on a GPU; on a CPU it would take all memory
    sizes = None if plan.device.type == "cuda" else ContinuousBatchingConfig(num_blocks=64, max_batch_tokens=2048)

    def generate() -> None:
        answers = model.generate_batch(prompts, generation_config=config, continuous_batching_config=sizes)
        lengths = {len(answer.generated_tokens) for answer in answers.values()}
        if len(answers) != plan.rows or lengths != {plan.new}:
            raise RuntimeError(f"generate_batch gave {len(answers)} answers of {sorted(lengths)} tokens")

    generate()
    return plan.figures(seconds_of_one(generate, plan.device))


def profiled(plan: Decoding) -> Mapping[str, Any]:
    """Count kernels, launches and busy time of a decode step: the difference of a longer and a shorter generation."""
    turns = plan.turns()

    def measure(new: int) -> tuple[float, float, float, float]:
        team = endless_team(dataclasses.replace(plan, new=new))
        play(team, turns)
        seconds = seconds_of_one(lambda: play(team, turns), plan.device)
        return seconds, *kernels_of(lambda: play(team, turns), plan.device)

    found = [measure(plan.new // 4), measure(plan.new)]
    steps = plan.new - plan.new // 4
    seconds, kernels, launches, busy_s = ((b - a) / steps for a, b in zip(*found, strict=True))
    return {
        "adapters": plan.adapters,
        "step_ms": 1e3 * seconds,
        "kernels_a_step": kernels,
        "launches_a_step": launches,
        "busy_ms_a_step": 1e3 * busy_s,
        "busy_share": busy_s / seconds,
    }


def kernels_of(work: Callable[[], object], device: torch.device) -> tuple[int, int, float]:
    """Run `work` under the profiler; return its kernels, its launches, and the busy seconds of a CUDA device."""
    from torch.profiler import ProfilerActivity, profile

    on_cuda = [ProfilerActivity.CUDA] if device.type == "cuda" else []
    with profile(activities=[ProfilerActivity.CPU, *on_cuda]) as profiler:
        work()
        synchronise(device)
    events = profiler.events() or []
    kernels = [event for event in events if str(event.device_type).endswith("CUDA")]
    launches = sum(event.name.startswith(("cudaLaunchKernel", "cudaGraphLaunch")) for event in events)
    return len(kernels), launches, sum(event.device_time for event in kernels) / 1e6
