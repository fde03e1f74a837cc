"""Contender: the update step of CoMLRL's MAGRPO, on the samples of the workload.

MAGRPO's agents act at the same time and a group has one prompt. It has no rollout in which an agent reads another's
answer. It would call `model.generate`, which is a contender by itself (`hf_generate`). The update gets the recorded
samples with one node per prompt. Answers are padded to the longest of their group, as its own generation does. The
group's advantages are passed as raw returns. Each agent has its own model, as in CoMLRL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from benchmarks.training.hf_generate import lora_model
from benchmarks.training.workload import END_TOKEN, RecordedTurn, Workload


def load(workload: Workload, dtype: str = "float32") -> Mapping[str, Callable[[], Mapping[str, float] | None]]:
    """Load the models; return the phases by name."""
    from comlrl.trainers.reinforce.magrpo import MAGRPOConfig, MAGRPOTrainer
    from transformers import AutoTokenizer

    settings = MAGRPOConfig(
        num_agents=len(workload.agents),
        num_turns=1,
        num_generations=max(2, workload.group_size),
        max_new_tokens=workload.cap,
        rollout_buffer_size=len(workload.rewards),
        advantage_mode="raw",
        advantage_normalization=False,
    )
    trainer = MAGRPOTrainer(
        agents=[lora_model(workload.model, dtype) for _ in workload.agents],
        num_agents=len(workload.agents),
        tokenizer=AutoTokenizer.from_pretrained(workload.model),
        reward_func=lambda *_: [0.0],
        args=settings,
    )

    def update() -> None:
        for place, agent in enumerate(workload.agents):
            trainer._update_from_samples(place, nodes(workload, place, workload.of(agent)))

    return {"update": update}


def nodes(workload: Workload, place: int, turns: tuple[RecordedTurn, ...]) -> list[Any]:
    """Return an agent's samples in CoMLRL's format: one node per distinct prompt of a group."""
    from comlrl.trainers.reinforce.magrpo import NodeSample

    gains = advantages(workload)
    members: dict[tuple[int, tuple[int, ...]], list[RecordedTurn]] = {}
    for turn in turns:
        members.setdefault((turn.episode // workload.group_size, turn.prompt_ids), []).append(turn)
    samples = []
    for (group, prompt), own in members.items():
        start = group * workload.group_size
        longest = max(len(turn.token_ids) for turn in turns[start : start + workload.group_size])
        padded = []
        for turn in own:
            missing = longest - len(turn.token_ids)
            padded.append(torch.tensor([*turn.token_ids, *[END_TOKEN] * missing]))
        sample = NodeSample(
            agent_idx=place,
            turn_idx=0,
            completions_data={"prompt_input_ids": torch.tensor([prompt]), "completion_input_ids": [padded]},
            returns=[gains[turn.episode] for turn in own],
            node_mean_reward=0.0,
            node_mean_return=0.0,
            node_env_step=0,
        )
        samples.append(sample)
    return samples


def advantages(workload: Workload) -> list[float]:
    """Return the group-normalised advantage of each episode: (reward - group mean) / (group std + 1e-6)."""
    rewards = torch.tensor(workload.rewards).view(-1, workload.group_size)
    centred = rewards - rewards.mean(1, keepdim=True)
    gains: list[float] = (centred / (centred.std(1, keepdim=True, unbiased=False) + 1e-6)).flatten().tolist()
    return gains
