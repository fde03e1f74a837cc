"""TorchRL's PPO trains the LoRA adapters of two language-model agents, in an id of ours where the message decides.

An agent is a TorchRL policy: a `ProbabilisticActor` from padded prompt ids to padded action ids, whose distribution
samples with `team.generate` and takes its log-probs from `team.score`. `ClipPPOLoss` and `GAE` are TorchRL's own, used
as for any other policy. Critics are linear, on features of the frozen trunk.

    pip install -e ".[agents,torchrl]"
    python -m baselines.third_party.torchrl_lora_ppo [--mute] [--updates N] [--seed N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from tensordict.nn import InteractionType, TensorDictModule
from torch import Tensor, nn
from torch.distributions import Distribution
from torch.nn.utils.rnn import pad_sequence
from torchrl.modules import ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import marft_envs
from marft_agents import (
    LanguageModelTeam,
    LoraSettings,
    Request,
    SampledTurn,
    SamplingParams,
    Trajectory,
    build_team,
    collect,
    evaluate,
    training_episodes,
)

GAME = "baselines.probes.digit_games:probe/copy_duo-v0"
EPISODES, EPOCHS, LEARNING_RATE, ENTROPY = 128, 4, 5e-3, 0.02
PADDING = -1
SAMPLING = SamplingParams(max_new_tokens=1)


class AgentActions(Distribution):
    """Actions of an agent after some prompts, as token ids.

    The entropy of whole actions has no closed form. `entropy` returns the summed entropy at the tokens of the actions
    that `log_prob` was last asked for, with its gradient.

    Args:
        prompt: Token ids of each prompt, int64 [N, P], padded.
        team: Team of the agent.
        agent: Id of the agent.
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012 - PyTorch's own form

    def __init__(self, prompt: Tensor, team: LanguageModelTeam, agent: str) -> None:
        self._prompts, self._team, self._agent = unpadded(prompt), team, agent
        super().__init__(torch.Size([len(prompt)]), validate_args=False)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Sample an action after each prompt, int64 [N, T], padded; its randomness is PyTorch's."""
        if sample_shape:
            raise NotImplementedError(f"sample_shape = {sample_shape}: wanted one action after each prompt")
        seeds = torch.randint(2**31, (len(self._prompts),)).tolist()
        requests = [Request(self._agent, "", np.random.default_rng(seed)) for seed in seeds]
        prompts = [ids.int().numpy() for ids in self._prompts]
        return padded([one.token_ids for one in self._team.generate(requests, prompts)])

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-prob of whole actions [N, T], float32 [N], with its gradient."""
        scores = self._team.score(self._agent, self._prompts, unpadded(value))
        self._entropy = scores.action_entropies
        return scores.action_logprobs

    def entropy(self) -> Tensor:
        """Return the summed entropy at the tokens of the actions last scored, float32 [N], in nats."""
        return self._entropy


class Prompts(nn.Module):
    """First module of an agent's policy: passes prompts on, and holds the parameters of the agent's adapter.

    Args:
        team: Team of the agent.
        agent: Id of the agent.
    """

    def __init__(self, team: LanguageModelTeam, agent: str) -> None:
        super().__init__()
        self.adapter = nn.ParameterList(team.parameters(agent))

    def forward(self, prompt: Tensor) -> Tensor:
        """Return the prompts [N, P]."""
        return prompt


def policy(team: LanguageModelTeam, agent: str) -> Any:
    """Return an agent of a team as a TorchRL policy: "prompt" in, "action" and its log-prob out."""
    return ProbabilisticActor(
        TensorDictModule(Prompts(team, agent), ["prompt"], ["prompt"]),
        in_keys=["prompt"],
        out_keys=["action"],
        distribution_class=AgentActions,
        distribution_kwargs={"team": team, "agent": agent},
        return_log_prob=True,
        default_interaction_type=InteractionType.RANDOM,  # to sample; its own default asks for a mode or a mean
    )


def padded(ids: Sequence[Any]) -> Tensor:
    """Return token ids as int64 [N, longest], padded at the end."""
    return pad_sequence([torch.as_tensor(one).long() for one in ids], batch_first=True, padding_value=PADDING)


def unpadded(ids: Tensor) -> list[Tensor]:
    """Return the token ids of each row."""
    return [row[row != PADDING] for row in ids]


def transitions(team: LanguageModelTeam, agent: str, episodes: Sequence[Trajectory], log_prob_key: str) -> Any:
    """Return an agent's turns as TorchRL's transitions, episode after episode along the time dimension.

    The reward of a turn is what the team got until the agent's next turn.

    Args:
        team: Team of the agent.
        agent: Id of the agent.
        episodes: Played episodes that terminated.
        log_prob_key: Key of the log-probs at sampling time.
    """
    turns: list[SampledTurn] = []
    rewards: list[float] = []
    done: list[bool] = []
    for episode in episodes:
        first = len(turns)
        for turn in episode.turns:
            if turn.agent == agent:
                turns.append(turn)
                rewards.append(0.0)
                done.append(False)
            if len(turns) > first:
                rewards[-1] += turn.reward
        if len(turns) > first:
            done[-1] = True
    prompts = [turn.action.prompt_ids for turn in turns]
    features = team.features(agent, prompts)
    ended = torch.tensor(done)[:, None]
    after = {
        "features": features.roll(-1, 0),  # of the agent's next turn; not read where an episode is done
        "reward": torch.tensor(rewards)[:, None],
        "done": ended,
        "terminated": ended,
    }
    return TensorDict(
        {
            "prompt": padded(prompts),
            "action": padded([turn.action.token_ids for turn in turns]),
            log_prob_key: torch.tensor([float(turn.action.logprobs.sum()) for turn in turns]),
            "features": features,
            "next": TensorDict(after, [len(turns)]),
        },
        [len(turns)],
    )


class AgentTrainer:
    """TorchRL's PPO for one agent of a team.

    Args:
        team: Team of the agent; its adapter is changed.
        agent: Id of the agent.
    """

    def __init__(self, team: LanguageModelTeam, agent: str) -> None:
        self.team, self.agent = team, agent
        width = team.local_agent(agent).base.hidden_size
        critic = ValueOperator(nn.Linear(width, 1), in_keys=["features"])
        self.advantage = GAE(gamma=1.0, lmbda=0.95, value_network=critic, average_gae=True)
        # functional=False: the model's layers read the adapter where it is, not copies that TorchRL would hand them
        self.loss = ClipPPOLoss(policy(team, agent), critic, clip_epsilon=0.2, entropy_coeff=ENTROPY, functional=False)
        self.optimizer = torch.optim.Adam(self.loss.parameters(), LEARNING_RATE, eps=1e-5)

    def update(self, episodes: Sequence[Trajectory]) -> None:
        """Make `EPOCHS` steps on the agent's turns."""
        (key,) = self.loss.actor_network.log_prob_keys
        data = transitions(self.team, self.agent, episodes, key)
        self.advantage(data)
        for _ in range(EPOCHS):
            losses = self.loss(data)
            sum(losses[name] for name in ("loss_objective", "loss_critic", "loss_entropy")).backward()
            nn.utils.clip_grad_norm_(self.loss.parameters(), 0.5)
            self.optimizer.step()
            self.optimizer.zero_grad()


def train(updates: int, seed: int, *, mute: bool) -> dict[str, Any]:
    """Train both agents from random weights.

    Args:
        updates: Number of updates, of `EPISODES` episodes each.
        seed: Seed of the adapters, the critics, the games and the sampling.
        mute: True if no agent hears the other: the control.

    Returns:
        Share of solved episodes of each update, and of held-out problems with greedy agents afterwards.
    """
    torch.manual_seed(seed)
    make_env = partial(marft_envs.make, GAME, **({"communication": "none"} if mute else {}))
    agents = make_env().possible_agents
    team = build_team(agents, {"*": "tiny-words"}, lora=LoraSettings(), sampling=SAMPLING, seed=seed)
    trainers = [AgentTrainer(team, agent) for agent in agents]
    curve = []
    for update in range(updates):
        episodes = collect(make_env, team, training_episodes(seed, update, EPISODES, 1), seed=seed, num_envs=EPISODES)
        for trainer in trainers:
            trainer.update(episodes)
        curve.append(float(np.mean([episode.team_return for episode in episodes])))
        print(f"update {update + 1}: solved {curve[-1]:.2f}", flush=True)
    greedy = team.under(SamplingParams(temperature=0.0, max_new_tokens=SAMPLING.max_new_tokens))
    scenarios = [{"index": index} for index in range(256)]
    held_out = evaluate(partial(make_env, split="test"), greedy, scenarios).accuracy.mean
    return {"seed": seed, "mute": mute, "curve": curve, "held_out": held_out, "cpu_s": time.process_time()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, and print the curve."""
    parser = argparse.ArgumentParser(description="TorchRL's PPO on two language-model agents.")
    parser.add_argument("--updates", type=int, default=30)
    parser.add_argument("--mute", action="store_true", help="no agent hears the other")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcome there")
    options = parser.parse_args(arguments)
    outcome = train(options.updates, options.seed, mute=options.mute)
    print(f"greedy on held-out problems: {outcome['held_out']:.2f}; chance is 0.33")
    if options.json is not None:
        options.json.write_text(json.dumps(outcome) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
