"""`marft play`: play one episode on the terminal with a human, random, scripted or model policy."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import marft_envs
from baselines.cli.environment_flags import add_environment_flags, read_keywords
from baselines.cli.settings_flags import seed
from baselines.cli.terminal import say, say_loading
from baselines.cli.trust_flag import add_trust_flag
from baselines.experiment.gold_answers import oracle_of
from marft_agents.policies.policy import Policy, Request, text_action
from marft_agents.policies.scripted import RandomPolicy, ScriptedPolicy
from marft_agents.trajectory import Action
from marft_common.visible_text import visible


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `marft play`."""
    parser.add_argument("env", metavar="ID", help="environment, like marft/math_duo-v0")
    parser.add_argument(
        "--policy",
        metavar="POLICY",
        help="human, random, scripted (the team plays the solution) or a model as in `marft train --model` "
        "(default: scripted)",
    )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="DIR",
        help="play the trained team of a run (its newest checkpoint), RUN@best, RUN@update-00012, or of a checkpoint",
    )
    parser.add_argument("--seed", type=seed, default=0, help="of the episode and the policy (default: 0)")
    parser.add_argument("--index", type=int, help="play this task")
    add_environment_flags(parser)
    add_trust_flag(parser)
    parser.set_defaults(run=run)


class HumanPolicy:
    """Policy that reads actions from the terminal."""

    def act(self, requests: Sequence[Request]) -> list[Action]:
        """Show each observation and read one line as the action."""
        actions = []
        for request in requests:
            say(f"\n--- {request.agent} sees\n{request.observation}\n")
            try:
                actions.append(text_action(input(f"{visible(request.agent, lines=False)}> ")))
            except EOFError:
                raise ValueError("the input ended before the episode did") from None
        return actions


def run(arguments: argparse.Namespace) -> int:
    """Run `marft play`."""
    env = marft_envs.make(arguments.env, **read_keywords(arguments))
    if arguments.checkpoint is not None and arguments.policy is not None:
        raise ValueError(f"--checkpoint plays the trained team: leave out --policy {arguments.policy}")
    if arguments.checkpoint is not None:
        policy = _trained(arguments.checkpoint, env, trust=arguments.trust_config)
    else:
        policy = _policy(arguments.policy or "scripted", env, arguments.seed)
    env.reset(seed=arguments.seed, options=None if arguments.index is None else {"index": arguments.index})
    for turn, agent in enumerate(env.agent_iter()):
        observation, _, terminated, truncated, _ = env.last()
        if terminated or truncated:
            env.step(None)
            continue
        # By the turn, so that another action before it changes nothing but what the agent sees.
        generator = np.random.default_rng(np.random.SeedSequence([arguments.seed, turn]))
        [action] = policy.act([Request(agent, observation or "", generator)])
        if action.failure is not None:
            raise ValueError(action.failure)
        if arguments.policy != "human":  # who has seen and written it already
            say(f"--- {agent} sees\n{observation}\n\n--- {agent} says\n{action.text}\n")
        env.step(action.text)
        if any(env.terminations.values()) or any(env.truncations.values()):
            infos = {name: float(value) for name, value in env.infos[agent].items()}
            say(f"team reward {env.rewards[agent]:g}; infos {json.dumps(infos)}")
    return 0


def _policy(name: str, env: Any, seed: int) -> Policy:
    """Return the policy of --policy; a name that is not human, random or scripted is that of a model."""
    if name == "human":
        return HumanPolicy()
    if name == "random":
        return RandomPolicy()
    if name == "scripted":
        oracle = oracle_of(env)
        # The oracle reads the game itself: no observation holds the solution.
        return ScriptedPolicy(lambda agent, observation: oracle(env.unwrapped, agent, observation))
    say_loading([name])
    from marft_agents.generation.sampling import SamplingParams
    from marft_agents.models.base_settings import LoraSettings
    from marft_agents.models.model_error import ModelError
    from marft_agents.policies.team_building import build_team

    try:
        return build_team(env.possible_agents, {"*": name}, lora=LoraSettings(), sampling=SamplingParams(), seed=seed)
    except ModelError as error:  # a misspelt policy is taken for a model
        raise ValueError(f"--policy {name}: neither human, random nor scripted; {error}") from error


def _trained(path: Path, env: Any, *, trust: bool | None) -> Policy:
    """Load the team of a run or a checkpoint."""
    say_loading(())  # torch alone takes seconds, before it is known which models follow
    from baselines.experiment.trained_team import PLAYERS, TeamSettings, experiment_of
    from marft_agents.runs import checkpoint

    path = checkpoint.resolve(path)
    settings = TeamSettings.of_run(experiment_of(path, PLAYERS, trust=trust), path)
    settings.check(env)
    say_loading(settings.models.values())
    return settings.load(env.possible_agents)
