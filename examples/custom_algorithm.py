"""An algorithm of your own from the learner's settings: you learn what defines an algorithm here, and train with it.

pip install -e ".[agents]"
python examples/custom_algorithm.py --model smollm2-135m --updates 16
"""

import argparse

from baselines import Experiment
from marft_agents import ALGORITHMS, Algorithm

parser = argparse.ArgumentParser(description="Train a duo with an algorithm that is defined here.")
parser.add_argument("--model", default="tiny", help="tiny (random), smollm2-135m, a folder or a hub id")
parser.add_argument("--updates", type=int, default=4)
parser.add_argument("--groups", type=int, default=4, help="problems per update")
parser.add_argument("--group-size", type=int, default=4, help="episodes per problem")
parser.add_argument("--out", default="runs/loo-tokens", help="run folder")
args = parser.parse_args()

# RLOO's baseline with GRPO's mean over each action's tokens, an upper clip as in DAPO, and a small KL to the base.
ALGORITHMS["loo-tokens"] = Algorithm(
    "returns against the mean of the others, token by token",
    "this file",
    fixes={
        "baseline": "leave_one_out",
        "scaling": "none",
        "centring": "none",
        "level": "token",
        "averaging": "sequence",
    },
    defaults={"kl_weight": 0.01, "clip_high": 0.28},
)
experiment = Experiment(
    "marft/gsm8k_duo-v0",
    keywords={"data": "embedded:stories"},
    models=args.model,
    algorithm="loo-tokens",
    updates=args.updates,
    groups=args.groups,
    group_size=args.group_size,
    policy_lr=1e-3,
    max_new_tokens=8,
)
settings = experiment.learner
print(f"level {settings.level}, baseline {settings.baseline}, clip_high {settings.clip_high}")
experiment.run(args.out, progress=print)
