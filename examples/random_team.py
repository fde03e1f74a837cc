"""A random team plays: you learn to make an environment, step it, and read rewards and records.

pip install marft
python examples/random_team.py --env marft/gsm8k_trio-v0 --episodes 3
"""

import argparse
import random

import marft_envs

parser = argparse.ArgumentParser(description="Play episodes with random words.")
parser.add_argument("--env", default="marft/gsm8k_trio-v0", help="id of an environment; `marft envs` lists them")
parser.add_argument("--episodes", type=int, default=3)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

env = marft_envs.make(args.env)
draw = random.Random(args.seed)
solved = 0
for episode in range(args.episodes):
    env.reset(seed=args.seed + episode)
    for agent in env.agent_iter():
        observation, reward, terminated, truncated, info = env.last()
        if terminated or truncated:
            env.step(None)
            continue
        action = draw.choice(["Let me think.", f"\\boxed{{{draw.randrange(100)}}}"])
        print(f"{agent} reads {len(observation)} characters and says {action}")
        env.step(action)
    record = env.unwrapped.episode()  # what was played, as data: actions, outcomes, who saw whom
    solved += bool(record.success)
    print(f"episode {episode}: task {record.task_id}, success {record.success}\n")
print(f"{solved} of {args.episodes} solved")
