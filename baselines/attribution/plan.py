"""Plan of an attribution of a trained team: everything is refused here, before a model is loaded."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from baselines.attribution.coalitions import MOST_EXACT, MakeEnv, Method
from baselines.attribution.message_influence import edges_of
from baselines.attribution.run import AttributionPlan, adapters_sha256
from baselines.experiment.environments import factory, notes_of
from baselines.experiment.evaluation import chosen_scenarios
from baselines.experiment.experiment import Experiment, trained_agents
from baselines.experiment.gold_answers import check_oracle
from baselines.experiment.scenario_lists import ScenarioList
from baselines.experiment.trained_team import TeamSettings
from marft_agents.rollouts.rollout import MAX_TURNS
from marft_agents.rollouts.text_spaces import refuse_unsuitable
from marft_agents.runs import checkpoint
from marft_envs.environment_capabilities import dependency_game
from marft_envs.tasks.tools.tool_access import check_surface


@dataclass(frozen=True)
class Choices:
    """Choices of the user; all else follows from the run.

    Attributes:
        agents: Names of the agents to measure, with commas between; None: all that were trained.
        method: "shapley" or "loo"; None: exact Shapley values for up to `MOST_EXACT` agents, else leave-one-out.
        replace: Name of the replacement: "untrained", "silence" or "oracle".
        influence: True also replaces the messages on each edge of the dependency function.
        limit: Largest number of scenarios, spread evenly over all; None plays all.
        scenarios: File of a scenario list to play instead.
        seeds: Seeds of the sampling.
        max_turns: Most turns of an episode; 0: no limit.
        other_tools: True allows another tool surface than the checkpoint was trained with.
    """

    agents: str | None = None
    method: Method | None = None
    replace: str = "untrained"
    influence: bool = True
    limit: int | None = None
    scenarios: Path | None = None
    seeds: tuple[int, ...] = (0,)
    max_turns: int = MAX_TURNS
    other_tools: bool = False


class Planned(NamedTuple):
    """A checked attribution.

    Attributes:
        make_env: Makes an independent environment.
        plan: Everything that decides the numbers.
        scenarios: List of the scenarios to play.
    """

    make_env: MakeEnv
    plan: AttributionPlan
    scenarios: ScenarioList


def make_plan(
    trained: Experiment, path: Path, settings: TeamSettings, keywords: Mapping[str, Any], choices: Choices
) -> Planned:
    """Make the plan of an attribution, and check that it can be played.

    Args:
        trained: Experiment of the run.
        path: Checkpoint whose adapters play.
        settings: Settings with which the team is loaded.
        keywords: Keywords of `marft_envs.make`, as values that JSON can hold.
        choices: Choices of the user.

    Raises:
        ValueError: A choice, the environment or the checkpoint cannot be used; the message says why.
    """
    make_env = factory(trained.env, keywords)
    env = make_env()
    refuse_unsuitable(env)
    check_surface(
        checkpoint.notes_of(path).get("tool_surface"), notes_of(env).get("tool_surface"), allow=choices.other_tools
    )
    players = chosen_players(choices.agents, env.possible_agents, trained_agents(env.possible_agents, trained.models))
    method: Method = choices.method or ("shapley" if len(players) <= MOST_EXACT else "loo")
    if method == "shapley" and len(players) > MOST_EXACT:
        raise ValueError(
            f"--method shapley: {len(players)} agents need {2 ** len(players)} coalitions, wanted at most {MOST_EXACT} "
            "agents; name some with --agents, or take --method loo"
        )
    if choices.limit is not None and choices.limit < 1:
        raise ValueError(f"--limit {choices.limit}: wanted at least 1 scenario")
    options, played = chosen_scenarios(env, trained.env, choices.limit, choices.scenarios)
    if choices.replace == "oracle":
        check_oracle(make_env, options[0])
    settings.check(env)
    game = dependency_game(env)
    plan = AttributionPlan(
        players=players,
        method=method,
        replace=choices.replace,
        edges=tuple(edges_of(game)) if game is not None and choices.influence else (),
        scenarios=options,
        seeds=choices.seeds,
        max_turns=choices.max_turns,
        origin={
            "env": trained.env,
            "keywords": keywords,
            "models": dict(trained.models),
            "checkpoint": str(path),
            "adapters_sha256": adapters_sha256(path),
            "scenarios_sha256": played.checksum.removeprefix("sha256:"),
            "law": dataclasses.asdict(settings.sampling),
            "context": dataclasses.asdict(settings.context),
        },
    )
    return Planned(make_env, plan, played)


def chosen_players(given: str | None, agents: Sequence[str], learners: Sequence[str]) -> tuple[str, ...]:
    """Return the agents to measure, in team order.

    Args:
        given: Names with commas between; None means all that were trained.
        agents: Agents of the team.
        learners: Agents that were trained.

    Raises:
        ValueError: There is one agent only, or a name is unknown.
    """
    if len(agents) < 2:
        raise ValueError(f"one agent ({', '.join(agents)}) made the whole result: attribution needs a team of several")
    if given is None:
        return tuple(learners)
    wanted = [name.strip() for name in given.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in agents]
    if unknown or not wanted:
        raise ValueError(f"--agents {given}: no agent {', '.join(unknown)!r}; the team has {', '.join(agents)}")
    return tuple(agent for agent in agents if agent in wanted)
