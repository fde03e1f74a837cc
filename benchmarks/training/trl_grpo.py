"""Contender: TRL's GRPOTrainer, on the samples of the workload.

A TRL trainer trains one agent, so a team is trained one agent after the other. Each agent gets one optimizer step on
its samples, in micro-batches of one group. All agents use one model in memory; a user would need one model per agent.

Generation uses TRL's own path to `model.generate`, with each agent's prompts. A logits processor forces the length of
each row. An update is `trainer.train()` on the recorded prompts and answers, supplied by a rollout function.

Settings are TRL's defaults with three exceptions: float32 (bfloat16 is emulated on most CPUs), no top-k or top-p, and
no logging or checkpoints. Gradient checkpointing is TRL's default; the contender "trl-plain" disables it. "trl-bf16"
has the weights in bfloat16 and TRL's own `bf16`, which is its default on a GPU.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from transformers import AutoModelForCausalLM, AutoTokenizer, LogitsProcessorList

from benchmarks.training.hf_generate import Lengths, lora_config, touch
from benchmarks.training.workload import END_TOKEN, Workload


def load(
    workload: Workload, *, checkpointing: bool = True, dtype: str = "float32"
) -> Mapping[str, Callable[[], Mapping[str, float] | None]]:
    """Load the model; return the phases by name."""
    trainer = make_trainer(workload, checkpointing, dtype)
    touch(trainer.model)
    return {"rollout": partial(rollout, trainer, workload), "update": partial(update, trainer)}


def make_trainer(workload: Workload, checkpointing: bool, dtype: str, *, use_cpu: bool = True) -> Any:
    """Make a trainer whose data set has one row per agent and group; `use_cpu` ignores a GPU."""
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"  # rollout functions are experimental in TRL and cause a warning
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    group = workload.group_size
    groups = len(workload.rewards) // group
    settings = GRPOConfig(
        output_dir=tempfile.mkdtemp(prefix="trl_"),
        use_cpu=use_cpu,
        bf16=dtype == "bfloat16",
        gradient_checkpointing=checkpointing,
        num_generations=group,
        per_device_train_batch_size=group,
        gradient_accumulation_steps=groups,
        max_steps=len(workload.agents),
        max_completion_length=workload.cap,
        temperature=1.0,
        top_k=0,
        generation_kwargs={"eos_token_id": END_TOKEN},
        shuffle_dataset=False,
        report_to="none",
        logging_strategy="no",
        save_strategy="no",
        disable_tqdm=True,
    )
    rows = [f"{agent} {number}" for agent in workload.agents for number in range(groups)]
    tokenizer = AutoTokenizer.from_pretrained(workload.model, padding_side="left")
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(workload.model, dtype=dtype),
        reward_funcs=given_rewards,
        args=settings,
        train_dataset=Dataset.from_dict({"prompt": rows}),
        processing_class=tokenizer,
        peft_config=lora_config(),
        rollout_func=partial(recorded, workload),
    )
    trainer.eos_token_ids = [END_TOKEN]
    return trainer


def given_rewards(given: Sequence[float], **_: Any) -> list[float]:
    """Return the rewards supplied by the rollout function."""
    return list(given)


def recorded(workload: Workload, prompts: Sequence[str], _: Any) -> dict[str, Any]:
    """Return the workload's samples for rows of the data set; TRL repeats each row once per episode."""
    found: dict[str, Any] = {"prompt_ids": [], "completion_ids": [], "logprobs": None, "given": []}
    for row in dict.fromkeys(prompts):
        agent, number = row.split(" ")
        start = int(number) * workload.group_size
        for turn in workload.of(agent)[start : start + workload.group_size]:
            found["prompt_ids"].append(list(turn.prompt_ids))
            found["completion_ids"].append(list(turn.token_ids))
            found["given"].append(workload.rewards[turn.episode])
    if len(found["given"]) != len(prompts):
        raise RuntimeError(f"TRL asked for {len(prompts)} samples, the workload has {len(found['given'])}")
    return found


def rollout(trainer: Any, workload: Workload) -> None:
    """Generate all turns with TRL's code, one agent after the other."""
    trainer.model.train()  # as in TRL's own loop, which generates in training mode
    for agent in workload.agents:
        turns = workload.of(agent)
        lengths = [len(turn.token_ids) for turn in turns]
        processor = Lengths(lengths, max(len(turn.prompt_ids) for turn in turns))
        model = trainer.model
        model.generate = partial(type(model).generate, model, logits_processor=LogitsProcessorList([processor]))
        answers, _ = trainer._generate_single_turn(
            [list(turn.prompt_ids) for turn in turns], None, {}, workload.group_size
        )
        del model.generate
        if (found := [len(answer) for answer in answers]) != lengths:
            raise RuntimeError(f"{agent}: TRL generated {found} tokens, wanted {lengths}")


def update(trainer: Any) -> Mapping[str, float]:
    """Take one optimizer step per agent; return the number of steps."""
    done = trainer.train()
    return {"steps": float(done.global_step)}
