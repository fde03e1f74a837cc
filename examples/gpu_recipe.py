"""A whole experiment on one GPU, ready for Colab: you learn the four commands from the untrained team to the result.

    !pip install -e ".[agents,data]"
    !python examples/gpu_recipe.py

On a T4 (16 GB) the defaults fit. Every step is a `marft` command; the lines that are printed can be run by hand.
"""

import argparse
import shlex
import sys

import torch

from baselines.cli.main import main

parser = argparse.ArgumentParser(description="Evaluate, train, evaluate, compare.")
parser.add_argument("--env", default="marft/gsm8k_duo-v0")
parser.add_argument("--data", default="hub:openai/gsm8k")
parser.add_argument("--model", default="Qwen/Qwen2.5-0.5B-Instruct")
parser.add_argument("--updates", type=int, default=100)
parser.add_argument("--groups", type=int, default=16, help="problems per update")
parser.add_argument("--group-size", type=int, default=8, help="episodes per problem")
parser.add_argument("--max-new-tokens", type=int, default=256)
parser.add_argument("--limit", type=int, default=200, help="held-out problems")
parser.add_argument("--out", default="runs/gpu")
args = parser.parse_args()

print(f"device: {torch.cuda.get_device_name() if torch.cuda.is_available() else 'CPU'}")
game = f"--env {args.env} --data {args.data}"
sampling = f"--max-new-tokens {args.max_new_tokens}"
held_out = f"--limit {args.limit} --temperature 0"
commands = [
    f"eval {game} {sampling} {held_out} --model {args.model} --out {args.out}/before",
    f"train {game} {sampling} --model {args.model} --algorithm marft-a --updates {args.updates} --groups {args.groups} "
    f"--group-size {args.group_size} --temperature 0.8 --policy-lr 1e-4 --gradient-checkpointing --out {args.out}/run",
    f"eval {game} {sampling} {held_out} --checkpoint {args.out}/run --out {args.out}/after",
    f"compare {args.out}/before {args.out}/after",
]
for command in commands:
    print(f"\n$ marft {command}", flush=True)
    if code := main(shlex.split(command)):
        sys.exit(code)
