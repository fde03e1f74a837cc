"""REINFORCE of your own on a team of language models: you learn what an algorithm asks of a team, and what it gets.

pip install -e ".[agents]"
python examples/reinforce.py --updates 120
"""

import argparse
import copy
from functools import partial

import torch

import marft_envs
from marft_agents import LoraSettings, SamplingParams, build_team, collect, evaluate, training_episodes

parser = argparse.ArgumentParser(description="Two agents learn to pass a digit on, from their shared reward alone.")
parser.add_argument("--updates", type=int, default=120)
parser.add_argument("--episodes", type=int, default=128, help="of an update")
parser.add_argument("--mute", action="store_true", help="let nobody hear the other: the control")
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()


def games(split):
    """Return a function that makes games: copies of one, which share its problems."""
    control = {"communication": "none"} if args.mute else {}
    game = marft_envs.make("baselines.probes.digit_games:probe/copy_duo-v0", split=split, **control)
    return partial(copy.deepcopy, game)


torch.manual_seed(args.seed)
make_env, agents = games("train"), ["agent_0", "agent_1"]  # the first is told a digit, the last must say it
word = SamplingParams(max_new_tokens=1)
team = build_team(agents, {"*": "tiny-words"}, lora=LoraSettings(), sampling=word, seed=args.seed)
heads = {agent: torch.nn.Linear(team.local_agent(agent).base.hidden_size, 1) for agent in agents}  # V: own baseline
tensors = {agent: [*team.parameters(agent), *heads[agent].parameters()] for agent in agents}
adam = {agent: torch.optim.Adam(tensors[agent], lr=2e-3, eps=1e-5) for agent in agents}


def update(number):
    """Play, and make one step of each agent along log pi * (R - leave-one-out mean - V); return the success."""
    starts = training_episodes(args.seed, number, groups=args.episodes, group_size=1)
    episodes = collect(make_env, team, starts, seed=args.seed, num_envs=args.episodes)
    returns = torch.tensor([episode.team_return for episode in episodes])
    surprise = returns - (returns.sum() - returns) / (len(returns) - 1)  # R less the mean of all other episodes
    for place, agent in enumerate(agents):
        actions = [episode.turns[place].action for episode in episodes]
        prompts = [action.prompt_ids for action in actions]
        values = heads[agent](team.features(agent, prompts)).squeeze(1)
        scores = team.score(agent, prompts, actions)
        policy = -(scores.action_logprobs * (surprise - values.detach())).mean()
        loss = policy - 0.01 * scores.entropy.mean() + (values - surprise).square().mean()
        adam[agent].zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(tensors[agent], 0.5)
        adam[agent].step()
    return returns.mean().item()


for number in range(args.updates):
    success = update(number)
    if number % 10 == 9 or number + 1 == args.updates:
        print(f"update {number + 1}: solved {success:.2f}", flush=True)
greedy = team.under(SamplingParams(temperature=0, max_new_tokens=1))
held_out = evaluate(games("test"), greedy, [{"index": index} for index in range(128)])
print(f"greedy on held-out problems: {held_out.accuracy.mean:.2f}; chance is 0.33")
