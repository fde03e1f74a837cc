"""Contender: generation with `model.generate` of transformers, one left-padded batch per agent as trainers call it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, LogitsProcessor, LogitsProcessorList

from benchmarks.training.workload import END_TOKEN, RecordedTurn, Workload

FULL_VOCABULARY = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}  # of `generate`


class Lengths(LogitsProcessor):
    """Logits processor that forces the length of each row.

    The end token has probability 0 before a row's length is reached, and 1 at that position.

    Args:
        lengths: Tokens of each answer, end token included.
        prompt: Tokens of the padded prompts.
    """

    def __init__(self, lengths: Sequence[int], prompt: int) -> None:
        self.lengths = torch.tensor(lengths)
        self.prompt = prompt

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return the logits [B, V] of one step, modified in place."""
        ends = self.lengths == input_ids.shape[1] - self.prompt + 1
        scores[~ends, END_TOKEN] = -torch.inf
        scores[ends] = -torch.inf
        scores[ends, END_TOKEN] = 0.0
        return scores


def lora_model(folder: str, dtype: str = "float32") -> Any:
    """Load the model in `dtype` with the LoRA adapter in float32 that every contender trains."""
    return touch(with_lora(AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)))


def with_lora(base: Any) -> Any:
    """Return a model with the LoRA adapter that every contender trains."""
    from peft import get_peft_model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft uses a deprecated attribute of transformers
        return get_peft_model(base, lora_config())


def touch(model: Any) -> Any:
    """Read all weights once, so that memory-mapped files are resident before the measurements."""
    for weight in model.parameters():
        weight.detach().sum().item()
    return model


def lora_config() -> Any:
    """Return the LoRA settings: r = 8 and alpha = 16 on the query and value projections."""
    from peft import LoraConfig

    return LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"], lora_dropout=0.0, task_type="CAUSAL_LM")


def pad_left(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Pad token rows on the left; return tokens and mask (1 for real tokens), both int64 [B, longest]."""
    longest = max(map(len, rows))
    tokens = torch.tensor([[END_TOKEN] * (longest - len(row)) + list(row) for row in rows])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    return tokens, mask


def load(workload: Workload, dtype: str = "float32") -> Mapping[str, Callable[[], Mapping[str, float] | None]]:
    """Load the model; return the phases by name."""
    model = lora_model(workload.model, dtype).eval()

    def rollout() -> None:
        for agent in workload.agents:
            generate(model, workload.of(agent))

    return {"rollout": rollout}


@torch.no_grad()
def sample(model: Any, rows: Sequence[Sequence[int]], new: int, **options: Any) -> Tensor:
    """Sample from the full vocabulary at temperature 1 with `generate` of transformers.

    Args:
        model: Model of transformers or PEFT.
        rows: Token ids of the prompts, padded on the left.
        new: Largest number of new tokens.
        **options: Further options of `generate`.

    Returns:
        Token ids [B, longest prompt + new tokens].
    """
    prompts, mask = (tensor.to(model.device) for tensor in pad_left(rows))
    found: Tensor = model.generate(
        input_ids=prompts,
        attention_mask=mask,
        **FULL_VOCABULARY,
        max_new_tokens=new,
        pad_token_id=END_TOKEN,
        **options,
    )
    return found


def generate(model: Any, turns: Sequence[RecordedTurn]) -> Tensor:
    """Sample an answer of the recorded length to each prompt, at temperature 1 from the full vocabulary.

    Returns:
        Token ids [B, longest prompt + longest answer].
    """
    prompts, lengths = [turn.prompt_ids for turn in turns], [len(turn.token_ids) for turn in turns]
    longest = max(map(len, prompts))
    ends = LogitsProcessorList([Lengths(lengths, longest)])
    found = sample(model, prompts, max(lengths), eos_token_id=END_TOKEN, logits_processor=ends)
    if found.shape[1] != longest + max(lengths):
        raise RuntimeError(f"generated {found.shape[1] - longest} tokens, wanted {max(lengths)}")
    return found
