"""A task of your own: you learn to write problems and a judge, register them, and check that they conform.

pip install marft
python examples/own_task.py
"""

from functools import partial

import marft_envs
from marft_envs import Outcome, Task, TaskList
from marft_envs.testing import check_environment

FLOWERS = ("rose", "tulip", "daisy", "lily", "iris")


class Anagrams(TaskList):
    """Unscramble a word. Two rounds: after a wrong first guess the team sees the first letter."""

    def judge(self, task, answer, *, round, last_round):
        """Judge the answering agent's action: any text, or None."""
        guess = (answer or "").strip().lower()
        right = guess == task.answer
        return Outcome(
            reward=1.0 if right and round == 0 else 0.5 * right,
            terminated=right,
            success=right,
            invalid=not guess,
            observation=f"The word begins with {task.answer[0]}.",
        )


def load(data="embedded", split="train"):
    """Make the problems of a split."""
    words = FLOWERS[:3] if split == "train" else FLOWERS[3:]
    return Anagrams("anagrams", [Task(word, "Unscramble: " + "".join(sorted(word)), word, split) for word in words])


marft_envs.register_task("anagrams", load, namespace="example", teams=["solo", "duo"], horizon=2)
env = marft_envs.make("example/anagrams_solo-v0", reward="outcome")
env.reset(seed=0, options={"task_id": "tulip"})
env.step("lip tu")
print("hint:", next(line for line in env.observe("actor_0").splitlines() if "begins" in line))
env.step("tulip")
print("reward in the second round:", env.rewards["actor_0"])

report = check_environment(partial(marft_envs.make, "example/anagrams_duo-v0"), cycles=10)
print(f"{sum(check.passed for check in report.checks)} checks passed, all: {report.passed}")
