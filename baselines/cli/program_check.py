"""`marft check --program`: play one episode of an agent program with a random model, and say what it did."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from baselines.cli.program_flags import keywords_of, name_program
from baselines.cli.terminal import say
from marft_agents.trajectory import EpisodeStart, Trajectory

TOKENS = 32  # longest answer of the random model


def check_program(arguments: argparse.Namespace) -> int:
    """Play the first line of the data; return exit code 0 if the episode did not fail, else 1."""
    name_program(arguments)
    say("loading torch ...")
    from baselines.experiment.environments import factory
    from marft_agents.generation.sampling import SamplingParams
    from marft_agents.models.base_settings import LoraSettings
    from marft_agents.policies.team_building import build_team
    from marft_agents.rollouts.rollout import collect

    make_env = factory(arguments.env, keywords_of(arguments))
    agents = make_env().possible_agents
    sampling = SamplingParams(max_new_tokens=TOKENS)
    team = build_team(agents, {"*": "tiny"}, lora=LoraSettings(), sampling=sampling)
    start = EpisodeStart(0, 0, 0, {"index": 0})
    [played] = collect(make_env, team, [start], seed=arguments.seed, num_envs=1)
    for line in told(played, agents):
        say(line)
    return 1 if played.failure is not None else 0


def told(played: Trajectory, agents: Sequence[str]) -> Iterator[str]:
    """Yield lines about an episode of a program."""
    asked = {turn.agent for turn in played.turns}
    seconds = f"{played.step_seconds:.1f} s" if played.step_seconds is not None else "?"
    yield f"{len(played.turns)} answers in {seconds}, in {len({turn.round for turn in played.turns})} layers"
    records = played.game["turns"] if played.game is not None else [{}] * len(played.turns)
    for number, (turn, record) in enumerate(zip(played.turns, records, strict=True)):
        counts = f"prompt {len(turn.action.prompt_ids)} tokens, answer {turn.action.num_tokens}"
        reads = ", ".join(f"{other + 1} ({evidence})" for other, evidence in record.get("reads", ()))
        bound = f"asked after {record['delivered_before']}" if record else "not recorded"
        yield f"{number + 1:4} {turn.agent}: layer {turn.round}; {counts}; read {reads or 'none'}; {bound}"
    if silent := [agent for agent in agents if agent not in asked]:
        yield f"never asked: {', '.join(silent)}"
    if played.failure is not None:
        yield f"the episode failed: {played.failure}"
    else:
        yield f"reward {played.team_return:g}"
