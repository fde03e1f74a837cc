"""TRL's own GRPOTrainer on an agent of ours: what the reset says reaches the model, calls play, rewards train."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trl

import marft_envs
from marft_envs.bridges import to_trl_environment

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),  # TRL warns that the interface is experimental
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

HINT = "Add the two numbers."


def byte_tokenizer():
    """Each byte a token, with the chat template of a model that calls tools."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    marks = ["<|pad|>", "<|im_start|>", "<|im_end|>"]
    symbols = [*marks, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    backend = Tokenizer(models.BPE(vocab={symbol: place for place, symbol in enumerate(symbols)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(marks)
    template = Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja"
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token=marks[0], eos_token=marks[2], chat_template=template.read_text()
    )


def tiny_model(tokenizer):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(tokenizer),
                hidden_size=16,
                intermediate_size=32,
                num_hidden_layers=1,
                num_attention_heads=2,
                max_position_embeddings=8192,
                bos_token_id=None,
                eos_token_id=tokenizer.eos_token_id,
                pad_token_id=tokenizer.pad_token_id,
            )
        )


class Watched(trl.GRPOTrainer):
    """Keeps what the model was fed; `answers` speak in its place, if there are any: prompt text -> completion."""

    def __init__(self, *arguments, answer=None, **kwargs):
        super().__init__(*arguments, **kwargs)
        self.answer, self.fed = answer, []

    def _generate_single_turn(self, prompt_ids, *arguments, **kwargs):
        texts = self.processing_class.batch_decode(prompt_ids)
        self.fed += texts
        if self.answer is None:
            return super()._generate_single_turn(prompt_ids, *arguments, **kwargs)
        said = [f"{self.answer(place, text)}<|im_end|>" for place, text in enumerate(texts)]
        return [self.processing_class(text)["input_ids"] for text in said], None


def one_step(folder, factory, rows, max_tokens, answer=None):
    """Do one step of GRPO; return the trainer and whether it moved the model."""
    from datasets import Dataset

    tokenizer = byte_tokenizer()
    trainer = Watched(
        model=tiny_model(tokenizer),
        processing_class=tokenizer,
        args=trl.GRPOConfig(
            output_dir=str(folder),
            per_device_train_batch_size=2,
            num_generations=2,
            max_steps=1,
            max_completion_length=max_tokens,
            learning_rate=1e-2,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
        ),
        train_dataset=Dataset.from_list(rows),
        environment_factory=factory,
        answer=answer,
    )
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    trainer.train()
    moved = any((old != new).any() for old, new in zip(before, trainer.model.parameters(), strict=True))
    return trainer, moved


def row(**given):
    return {"prompt": [{"role": "user", "content": ""}], **given}


def call(text):
    return f"<tool_call>\n{json.dumps({'name': 'say', 'arguments': {'text': text}})}\n</tool_call>"


def test_the_untouched_trainer_feeds_the_model_what_the_agent_sees(tmp_path):
    factory = to_trl_environment("marft/math_duo-v0", "actor_0", {"reasoner_0": lambda seen: HINT})
    trainer, _ = one_step(tmp_path, factory, [row(seed=0, index=2)], max_tokens=4)
    assert len(trainer.fed) == 2
    for fed in trainer.fed:
        assert marft_envs.make("marft/math_duo-v0").unwrapped.tasks[2].prompt in fed
        assert f"reasoner_0: {HINT}" in fed
        assert '"name": "say"' in fed
    (logged,) = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert logged["reward"] == 0.0


def test_a_call_plays_the_game_and_its_reward_trains(tmp_path):
    factory = to_trl_environment("marft/math_duo-v0", "actor_0", {"reasoner_0": lambda seen: HINT})
    gold = marft_envs.make("marft/math_duo-v0").unwrapped.tasks[2].answer

    def answer(place, text):
        return "Done." if "game is over" in text else call(f"\\boxed{{{gold}}}" if place else "no idea")

    trainer, moved = one_step(tmp_path, factory, [row(seed=0, index=2)], max_tokens=512, answer=answer)
    (logged,) = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert logged["rewards/TrlEnvironment/mean"] == 0.5
    assert logged["tools/failure_frequency"] == 0.0
    assert moved


def test_what_happens_between_two_turns_comes_back_from_the_call(tmp_path):
    factory = to_trl_environment("marft/math_solo-v0", "actor_0", horizon=2)
    trainer, _ = one_step(
        tmp_path, factory, [row(seed=0, index=2)], max_tokens=1024, answer=lambda place, text: call("not yet")
    )
    assert any("<tool_response>\nRound 2 of 2.\n</tool_response>" in fed for fed in trainer.fed)
    assert any("<tool_response>\nThe game is over.\n</tool_response>" in fed for fed in trainer.fed)
