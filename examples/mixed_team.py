"""A trained agent beside a frozen partner: you learn to mix policies in a team and to train only some of them.

pip install -e ".[agents]"
python examples/mixed_team.py --model smollm2-135m --updates 16
"""

import argparse

import marft_envs
from marft_agents import (
    Learner,
    LoraSettings,
    MixedPolicy,
    SamplingParams,
    ScriptedPolicy,
    Trainer,
    TrainingSchedule,
    build_team,
    learner_settings,
)

parser = argparse.ArgumentParser(description="Train the actor; the reasoner stays as it is.")
parser.add_argument("--model", default="tiny", help="tiny (random), smollm2-135m, a folder or a hub id")
parser.add_argument("--updates", type=int, default=4)
parser.add_argument("--groups", type=int, default=4, help="problems per update")
args = parser.parse_args()


def make_env():
    """Make an independent game."""
    return marft_envs.make("marft/gsm8k_duo-v0", data="embedded:stories")


# The partner: a script here. `RemotePolicy(url, model)` is a served model, `build_team` a local one without training.
partner = ScriptedPolicy(lambda agent, seen: "Add the numbers in their order.")

sampling = SamplingParams(max_new_tokens=8, temperature=0.8)
team = build_team(["actor_0"], {"*": args.model}, lora=LoraSettings(rank=8), sampling=sampling)  # only what is trained
trainer = Trainer(
    make_env,
    team,
    Learner(team, learner_settings("marft-a", policy_lr=1e-3), total_updates=args.updates),
    TrainingSchedule(updates=args.updates, groups=args.groups, group_size=4),
    policy=MixedPolicy({"reasoner_0": partner, "actor_0": team}),
)
while not trainer.over:
    metrics = trainer.step()
    trained = sorted({name.partition("/")[0] for name in metrics if name.endswith("/grad_norm")})
    print(f"update {trainer.learner.updates}: success {metrics['team/success']:.2f}, trained {', '.join(trained)}")
