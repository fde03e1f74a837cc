"""PPO of Stable-Baselines3 in a text game: you learn which views turn text into what other libraries expect.

pip install -e ".[sb3]"
python examples/third_party_ppo.py --steps 8192
"""

import argparse

from stable_baselines3 import PPO

import marft_envs
from marft_envs.tasks.math import MathTasks
from marft_envs.wrappers import CandidateAction, EmbeddingObservation, HashedNgrams, SharedPolicyEnv

parser = argparse.ArgumentParser(description="Train one policy for both agents of a duo.")
parser.add_argument("--steps", type=int, default=8192, help="turns to train for")
parser.add_argument("--problems", type=int, default=6, help="problems, with as many possible answers")
args = parser.parse_args()

# Few problems with different answers: their answers are the actions.
every = MathTasks.load("gsm8k")
by_answer = {every[place].answer: every[place] for place in range(len(every))}
tasks = list(by_answer.values())[: args.problems]
answers = tuple(f"\\boxed{{{task.answer}}}" for task in tasks)

game = marft_envs.make("marft/gsm8k_duo-v0", data=MathTasks("few", tasks))
choosing = CandidateAction(game, answers)  # text action -> Discrete(problems)
numbers = EmbeddingObservation(choosing, HashedNgrams(dim=256))  # text observation -> vector
env = SharedPolicyEnv(numbers)  # agents in turn -> one Gymnasium environment

model = PPO("MlpPolicy", env, n_steps=min(512, args.steps), learning_rate=1e-3, ent_coef=0.01, seed=0, device="cpu")
model.learn(args.steps)

won, episodes = 0.0, 4 * args.problems
for seed in range(episodes):
    seen, _ = env.reset(seed=seed)
    done = False
    while not done:
        action, _ = model.predict(seen, deterministic=True)
        seen, reward, terminated, truncated, _ = env.step(action)
        done = terminated or truncated
    won += reward
print(f"solved {won / episodes:.2f} of the episodes; chance is {1 / args.problems:.2f}")
