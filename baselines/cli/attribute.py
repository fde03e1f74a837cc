"""`marft attribute`: contribution of each agent of a trained team, and influence of each message."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from baselines.attribution.coalitions import MOST_EXACT, Coalition, Game
from baselines.attribution.plan import Choices, Planned, make_plan
from baselines.attribution.run import (
    EpisodeCost,
    cost,
    measured_cost,
    missing,
    play,
    replacement,
    summary,
)
from baselines.cli.device_flag import add_device_flag, devices_of
from baselines.cli.environment_flags import TRAINED, add_environment_flags, given_keywords, read_keywords
from baselines.cli.evaluate import add_scenario_flags
from baselines.cli.progress import EpisodeCount
from baselines.cli.settings_flags import add_knobs, given_knobs, read_knobs
from baselines.cli.terminal import say, say_loading, stoppable
from baselines.cli.trust_flag import add_trust_flag
from baselines.experiment.config_trust import Uses
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
from marft_agents.runs.schedule import TrainingSchedule
from marft_envs.environment_capabilities import dependency_game

REPLACEMENTS = ("untrained", "silence", "oracle")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `marft attribute`."""
    parser.add_argument(
        "checkpoint",
        type=Path,
        metavar="RUN",
        help=TRAINED,
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
    settings, (make_env, plan, _) = read_plan(arguments)
    if folder is not None:
        plan.check_folder(folder)
    team = None
    # The run's own records tell what an episode costs; without them some are played to find out.
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

    command = ["marft", *sys.argv[1:]]
    with (
        stoppable(command, folder / "plan.json"),
        EpisodeCount("attribution", max(1, missing(plan, folder))) as count,
    ):
        results = play(plan, replaced, folder, lambda _: count.advance())
    found = summary(plan, *results)
    origin = {"schema": ATTRIBUTION_SCHEMA, "command": shlex.join(command), "commit": source_commit()}
    write_json(file, {**origin, "versions": versions(), **plan.to_dict(), **found})
    print_summary(found)
    say(f"results: {file}")


def result_paths(out: Path) -> tuple[Path, Path]:
    """Return the folder of the coalitions and the file of the results for a value of --out."""
    return (out.with_suffix(""), out) if out.suffix == ".json" else (out, out / "attribution.json")


# ------------------------------------------------------------------ plan


def read_plan(arguments: argparse.Namespace) -> tuple[TeamSettings, Planned]:
    """Return the team settings and the plan of the flags; everything is refused here, before a model is loaded.

    Raises:
        ValueError: A flag, the environment or the checkpoint cannot be used; the message says why.
    """
    path = checkpoint.resolve(arguments.checkpoint)
    replaced = [f"keywords.{name}" for name in given_keywords(arguments)]
    uses = Uses(only=("env", "keywords", "models"), but=replaced)
    trained = experiment_of(path, uses, trust=arguments.trust_config)
    arguments.env = trained.env
    keywords = {**trained.keywords, **read_keywords(arguments, trained.keywords.get("reward", "success"))}
    settings = dataclasses.replace(
        TeamSettings.of_run(trained, path),
        sampling=read_knobs(arguments, SamplingParams, dataclasses.asdict(trained.sampling)),
        context=read_knobs(arguments, ContextSettings, dataclasses.asdict(trained.context)),
    )
    choices = Choices(
        agents=arguments.agents,
        method=arguments.method,
        replace=arguments.replace,
        influence=arguments.influence,
        limit=arguments.limit,
        scenarios=arguments.scenarios,
        seeds=arguments.seeds or (0,),
        max_turns=TrainingSchedule(**given_knobs(arguments, TrainingSchedule)).max_turns,
        other_tools=bool(arguments.other_tools),
    )
    planned = make_plan(trained, path, settings, keywords, choices)
    if arguments.save_scenarios is not None and not arguments.dry_run:
        planned.scenarios.write(arguments.save_scenarios)
    return settings, planned


# ------------------------------------------------------------------ table


def print_summary(found: Mapping[str, Any]) -> None:
    """Print the contributions and the influence of the messages, lowest first.

    Args:
        found: Results, from `baselines.attribution.run.summary`.
    """
    shown = console(width=TABLE_WIDTH)
    # By the set of players, in whatever order a file lists them.
    coalitions = {frozenset(coalition["players"]): coalition for coalition in found["coalitions"]}
    everyone = frozenset(found["agents"])
    is_shapley = found["total"] is not None  # Shapley values add up to it; leave-one-out values have no total
    name = "Shapley value" if is_shapley else "leave-one-out value"
    table = Table("agent", f"{name} [95 % interval]", "team without it", "it alone")
    for agent, value in sorted(found["agents"].items(), key=lambda item: float(item[1]["mean"])):
        others, alone = coalitions[everyone - {agent}], coalitions.get(frozenset({agent}))
        table.add_row(agent, _cell(value), _cell(others), "-" if alone is None else _cell(alone))
    table.add_section()
    table.add_row("whole team (success)", _cell(coalitions[everyone]), "", "")
    if is_shapley:
        table.add_row("whole team - none", _cell(found["total"]), "", "")
    shown.print(table)
    if found["influence"]:
        edges = Table("message", "answer changes", "success changes", "success gained by it", "scenarios")
        for edge in sorted(found["influence"], key=lambda edge: float(edge["answer_changed"]["mean"])):
            cells = [_cell(edge[key]) for key in ("answer_changed", "success_changed", "success_gain")]
            edges.add_row(f"{edge['author']} -> {edge['reader']}", *cells, str(edge["scenarios"]))
        shown.print(edges)


def _cell(found: Mapping[str, Any]) -> str:
    low, high = map(float, found["interval_95"])
    return f"{float(found['mean']):.3f} [{low:.3f}, {high:.3f}]"
