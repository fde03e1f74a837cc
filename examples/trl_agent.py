"""TRL's GRPO trains one agent of a team: you learn to give TRL an agent of a game as its environment.

    pip install -e ".[agents,trl]"
    python examples/trl_agent.py --model Qwen/Qwen2.5-0.5B-Instruct --steps 20

The model acts by calling the tool `say`, so its chat template must support tool calls.
"""

import argparse

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from marft_envs.bridges import to_trl_environment

parser = argparse.ArgumentParser(description="Train the actor of a duo with TRL.")
parser.add_argument("--model", default="Qwen/Qwen2.5-0.5B-Instruct", help="folder or hub id")
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--group-size", type=int, default=8, help="rollouts per game")
parser.add_argument("--max-tokens", type=int, default=256)
parser.add_argument("--out", default="runs/trl")
parser.add_argument("--cpu", action="store_true")
args = parser.parse_args()

# The other agent is a function of its observation: a fixed text here, a model or an endpoint in earnest.
partners = {"reasoner_0": lambda seen: "Add or subtract the numbers in their order."}
make_env = to_trl_environment("marft/gsm8k_duo-v0", "actor_0", partners, data="embedded:stories")

# Each row names a game by its seed: all rollouts of a group start alike. The observation is appended to the prompt.
rows = [{"prompt": [{"role": "user", "content": ""}], "seed": seed} for seed in range(200)]
trainer = GRPOTrainer(
    model=args.model,
    args=GRPOConfig(
        output_dir=args.out,
        max_steps=args.steps,
        per_device_train_batch_size=args.group_size,
        num_generations=args.group_size,
        max_completion_length=args.max_tokens,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        use_cpu=args.cpu,
        bf16=not args.cpu,
        gradient_checkpointing=not args.cpu,
    ),
    train_dataset=Dataset.from_list(rows),
    environment_factory=make_env,
)
trainer.train()
rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
print(f"{len(rewards)} steps; mean team reward of the last: {rewards[-1]:.2f}")
