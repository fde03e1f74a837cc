"""TRL's own GRPOTrainer on an agent of ours: what the reset says reaches the model, calls play, rewards train."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trl

import marft_envs
from marft_agents.models.random_models import RANDOM_MODELS, byte_tokenizer
from marft_envs.bridges import to_trl_environment

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),  # TRL warns that the interface is experimental
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

HINT = "Add the two numbers."
TASK = marft_envs.make("marft/math_duo-v0").unwrapped.tasks[2]
ROW = {"prompt": [{"role": "user", "content": ""}], "seed": 0, "index": 2}
CALLS_TOOLS = Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja"


class Watched(trl.GRPOTrainer):
    """Keeps what the model was fed; `answer` speaks in its place, if there is one: (place, prompt) -> completion."""

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


def one_step(folder, factory, max_tokens, answer=None):
    """Do one step of GRPO; return what the model was fed, what was logged, and whether it moved the model."""
    from datasets import Dataset

    tokenizer = byte_tokenizer()
    tokenizer.chat_template = CALLS_TOOLS.read_text(encoding="utf-8")
    trainer = Watched(
        model=RANDOM_MODELS["tiny"].model(),
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
        train_dataset=Dataset.from_list([ROW]),
        environment_factory=factory,
        answer=answer,
    )
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    trainer.train()
    moved = any((old != new).any() for old, new in zip(before, trainer.model.parameters(), strict=True))
    (logged,) = [entry for entry in trainer.state.log_history if "reward" in entry]
    return trainer.fed, logged, moved


def call(text):
    return f"<tool_call>\n{json.dumps({'name': 'say', 'arguments': {'text': text}})}\n</tool_call>"


def duo():
    return to_trl_environment("marft/math_duo-v0", "actor_0", {"reasoner_0": lambda seen: HINT})


def test_the_untouched_trainer_feeds_the_model_what_the_agent_sees(tmp_path):
    prompts, logged, _ = one_step(tmp_path, duo(), max_tokens=4)
    assert len(prompts) == 2
    for part in (TASK.prompt, f"reasoner_0: {HINT}", '"name": "say"'):
        assert all(part in fed for fed in prompts)
    assert logged["reward"] == 0.0


def test_a_call_plays_the_game_and_its_reward_trains(tmp_path):
    def answer(place, text):
        return "Done." if "game is over" in text else call(f"\\boxed{{{TASK.answer}}}" if place else "no idea")

    _, logged, moved = one_step(tmp_path, duo(), max_tokens=512, answer=answer)
    assert logged["rewards/TrlEnvironment/mean"] == 0.5
    assert logged["tools/failure_frequency"] == 0.0
    assert moved


def test_what_happens_between_two_turns_comes_back_from_the_call(tmp_path):
    factory = to_trl_environment("marft/math_solo-v0", "actor_0", horizon=2)
    prompts, _, _ = one_step(tmp_path, factory, max_tokens=1024, answer=lambda place, text: call("not yet"))
    for told in ("Round 2 of 2.", "The game is over."):
        assert any(f"<tool_response>\n{told}\n</tool_response>" in fed for fed in prompts)
