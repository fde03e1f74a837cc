"""A reward of your own: you learn to pay by weighted terms over the whole episode, and by a function of the outcome.

pip install marft
python examples/own_reward.py
"""

import marft_envs
from marft_envs import TeamReward
from marft_envs.tasks.worlds import play, script

# Terms over the joint trajectory of a team with tools: pay completion, charge for loops of hand-offs and for errors.
reward = TeamReward({"completion": 1.0, "handoff_loops": -0.5, "tool_errors": -0.25})
env = marft_envs.make("marft/tools_duo-v0", data="embedded:lookup", reward=reward)
env.reset(seed=0, options={"index": 0})
episode = play(env, script(env))  # the oracle's actions
print("terms:", {name: round(value, 2) for name, value in episode.terms.items()})
print("team reward:", reward.total(episode.terms))


def short_answers(outcome):
    """Pay a right answer, and a little for an answer that could be read at all."""
    return 1.0 if outcome.success else 0.1 * (not outcome.invalid)


env = marft_envs.make("marft/gsm8k_duo-v0", data="embedded:stories", reward=short_answers)
gold = env.unwrapped.tasks[0].answer
for answer in (rf"\boxed{{{gold}}}", r"\boxed{0}", "no idea"):
    env.reset(seed=0, options={"index": 0})
    env.step("I add the numbers.")
    env.step(answer)
    print(f"{answer:12} pays {env.rewards['actor_0']}")
