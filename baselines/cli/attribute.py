"""`marft attribute`: contribution of each agent of a trained team, and influence of each message."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from baselines.attribution.coalitions import (
    MOST_EXACT,
    Coalition,
    Game,
    MakeEnv,
    Method,
)
from baselines.attribution.message_influence import edges_of
from baselines.attribution.run import (
    AttributionPlan,
    EpisodeCost,
    adapters_sha256,
    cost,
    measured_cost,
    missing,
    play,
    replacement,
    summary,
)
from baselines.cli.device_flag import add_device_flag, devices_of
from baselines.cli.environment_flags import add_environment_flags, given_keywords, read_keywords
from baselines.cli.evaluate import add_scenario_flags
from baselines.cli.progress import EpisodeCount
from baselines.cli.settings_flags import add_knobs, given_knobs, read_knobs
from baselines.cli.terminal import say, say_loading
from baselines.cli.trust_flag import add_trust_flag
from baselines.experiment.config_trust import Uses
from baselines.experiment.environments import factory, notes_of
from baselines.experiment.evaluation import chosen_scenarios
from baselines.experiment.experiment import trained_agents
from baselines.experiment.gold_answers import check_oracle
from baselines.experiment.record_shapes import ATTRIBUTION_SCHEMA
from baselines.experiment.source_commit import source_commit
from baselines.experiment.trained_team import TeamSettings, experiment_of, run_of
from baselines.results.visible_console import TABLE_WIDTH, console
from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.context_window import ContextSettings
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.runs import checkpoint
from marft_agents.runs.folder_lock import owned
from marft_agents.runs.run_folder import check_free, versions, write_json
from marft_agents.runs.trainer import TrainingSchedule, refuse_unsuitable
from marft_envs.environment_capabilities import dependency_game
from marft_envs.tasks.tools.tool_access import check_surface

REPLACEMENTS = ("untrained", "silence", "oracle")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `marft attribute`."""
    parser.add_argument(
        "checkpoint",
        type=Path,
        metavar="RUN",
        help="a run of `marft train` (its newest checkpoint), RUN@best, RUN@update-00012, or a checkpoint",
    )
    parser.add_argument("--out", type=Path, metavar="PATH", help="folder for the results, or a file that ends in .json")
    parser.add_argument(
        "--replace",
        choices=REPLACEMENTS,
        default="untrained",
        help="policy of the agents outside of a coalition: the bare base, an empty message, or the gold answer "
        "(default: untrained)",
    )
    parser.add_argument(
        "--method",
        choices=("shapley", "loo"),
        help=f"exact Shapley values, or leave-one-out (default: shapley for up to {MOST_EXACT} agents, else loo)",
    )
    parser.add_argument(
        "--agents",
        metavar="NAME,NAME",
        help="agents to measure; the others always play as they are (default: all that were trained)",
    )
    parser.add_argument(
        "--influence",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also replace the messages on each edge of the dependency function (default: yes)",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the cost and stop")
    add_device_flag(parser)
    add_scenario_flags(parser)
    add_environment_flags(parser, split="test")
    add_knobs(parser, SamplingParams, title="sampling (as in training where not given)")
    add_knobs(parser, ContextSettings, title="context window (as in training where not given)")
    add_trust_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `marft attribute`."""
    if arguments.out is None and not arguments.dry_run:
        raise ValueError("marft attribute needs --out PATH (or --dry-run)")
    if arguments.out is None:
        _attribute(arguments, None, None)
    else:
        folder, file = result_paths(arguments.out)
        with owned(folder):
            check_free(folder)
            _attribute(arguments, folder, file)
    return 0


def _attribute(arguments: argparse.Namespace, folder: Path | None, file: Path | None) -> None:
    """Print the cost, play all that is not in the folder yet, write the results to the file and print them."""
    device = devices_of(arguments.device)
    settings, make_env, plan = read_plan(arguments)
    if folder is not None:
        plan.check_folder(folder)
    team = None
    each = EpisodeCost.of_run(run_of(checkpoint.resolve(arguments.checkpoint)))
    if each is None:
        say_loading(settings.models.values())
        team = settings.load(make_env().possible_agents, device)
        each = measured_cost(plan, make_env, team)
    say(cost(plan, each, dependency_game(make_env())), flush=True)
    if arguments.dry_run or folder is None or file is None:
        return

    @functools.cache
    def loaded() -> LanguageModelTeam:
        if team is not None:
            return team
        say_loading(settings.models.values())
        return settings.load(make_env().possible_agents, device)

    def replaced(agents: Coalition) -> Game:  # loads no model where every coalition is there already
        return replacement(plan, make_env, loaded())(agents)

    with EpisodeCount("attribution", max(1, missing(plan, folder))) as count:
        results = play(plan, replaced, folder, lambda _: count.advance())
    found = summary(plan, *results)
    origin = {"schema": ATTRIBUTION_SCHEMA, "command": shlex.join(["marft", *sys.argv[1:]]), "commit": source_commit()}
    write_json(file, {**origin, "versions": versions(), **plan.to_dict(), **found})
    print_summary(found)
    say(f"results: {file}")


def result_paths(out: Path) -> tuple[Path, Path]:
    """Return the folder of the coalitions and the file of the results for a value of --out."""
    return (out.with_suffix(""), out) if out.suffix == ".json" else (out, out / "attribution.json")


# ------------------------------------------------------------------ plan


def read_plan(arguments: argparse.Namespace) -> tuple[TeamSettings, MakeEnv, AttributionPlan]:
    """Return team settings, environment factory and plan; everything is refused here, before a model is loaded.

    Raises:
        ValueError: A flag, the environment or the checkpoint cannot be used; the message says why.
    """
    path = checkpoint.resolve(arguments.checkpoint)
    replaced = [f"keywords.{name}" for name in given_keywords(arguments)]
    uses = Uses(only=("env", "keywords", "models"), but=replaced)
    trained = experiment_of(path, uses, trust=arguments.trust_config)
    arguments.env = trained.env
    keywords = {**trained.keywords, **read_keywords(arguments, trained.keywords.get("reward", "success"))}
    make_env = factory(trained.env, keywords)
    env = make_env()
    refuse_unsuitable(env)
    check_surface(
        checkpoint.notes_of(path).get("tool_surface"),
        notes_of(env).get("tool_surface"),
        allow=bool(arguments.other_tools),
    )
    settings = TeamSettings(
        models=dict(trained.models),
        sampling=read_knobs(arguments, SamplingParams, dataclasses.asdict(trained.sampling)),
        context=read_knobs(arguments, ContextSettings, dataclasses.asdict(trained.context)),
        lora=trained.lora,
        sharing=trained.sharing,
        dtype=trained.dtype,
        remote=trained.remote,
        checkpoint=path,
    )
    players = read_players(arguments.agents, env.possible_agents, trained_agents(env.possible_agents, trained.models))
    method: Method = arguments.method or ("shapley" if len(players) <= MOST_EXACT else "loo")
    if method == "shapley" and len(players) > MOST_EXACT:
        raise ValueError(
            f"--method shapley: {len(players)} agents need {2 ** len(players)} coalitions, wanted at most {MOST_EXACT} "
            "agents; name some with --agents, or take --method loo"
        )
    if arguments.limit is not None and arguments.limit < 1:
        raise ValueError(f"--limit {arguments.limit}: wanted at least 1 scenario")
    options, played = chosen_scenarios(env, trained.env, arguments.limit, arguments.scenarios)
    if arguments.replace == "oracle":
        check_oracle(make_env, options[0])
    settings.check(env)
    game = dependency_game(env)
    plan = AttributionPlan(
        players=players,
        method=method,
        replace=arguments.replace,
        edges=tuple(edges_of(game)) if game is not None and arguments.influence else (),
        scenarios=options,
        seeds=arguments.seeds or (0,),
        max_turns=TrainingSchedule(**given_knobs(arguments, TrainingSchedule)).max_turns,
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
    if arguments.save_scenarios is not None and not arguments.dry_run:
        played.write(arguments.save_scenarios)
    return settings, make_env, plan


def read_players(given: str | None, agents: Sequence[str], learners: Sequence[str]) -> tuple[str, ...]:
    """Return the agents to measure, in team order.

    Args:
        given: Value of --agents; None means all that were trained.
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


# ------------------------------------------------------------------ table


def print_summary(found: Mapping[str, Any]) -> None:
    """Print the contributions and the influence of the messages, lowest first."""
    shown = console(width=TABLE_WIDTH)
    success = {frozenset(one["players"]): one for one in found["coalitions"]}
    everyone = frozenset(found["agents"])
    name = "Shapley value" if found["total"] is not None else "leave-one-out value"
    table = Table("agent", f"{name} [95 % interval]", "team without it", "it alone")
    for agent, one in sorted(found["agents"].items(), key=lambda item: _number(item[1])):
        others, alone = success[everyone - {agent}], success.get(frozenset({agent}))
        table.add_row(agent, _cell(one), _cell(others), "-" if alone is None else _cell(alone))
    table.add_section()
    table.add_row("whole team (success)", _cell(success[everyone]), "", "")
    if found["total"] is not None:
        table.add_row("whole team - none", _cell(found["total"]), "", "")
    shown.print(table)
    if found["influence"]:
        edges = Table("message", "answer changes", "success changes", "success gained by it", "scenarios")
        for one in sorted(found["influence"], key=lambda one: _number(one["answer_changed"])):
            cells = [_cell(one[key]) for key in ("answer_changed", "success_changed", "success_gain")]
            edges.add_row(f"{one['author']} -> {one['reader']}", *cells, str(one["scenarios"]))
        shown.print(edges)


def _number(found: Mapping[str, Any]) -> float:
    return float(found["mean"])


def _cell(found: Mapping[str, Any]) -> str:
    low, high = map(float, found["interval_95"])
    return f"{float(found['mean']):.3f} [{low:.3f}, {high:.3f}]"
