"""`marft eval`: evaluate a team on a fixed list of scenarios; accuracy with its 95 % interval."""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

import marft_envs
from baselines.cli.config_file import add_config
from baselines.cli.device_flag import devices_of
from baselines.cli.environment_flags import TRAINED, add_environment_flags, add_run_flags
from baselines.cli.program_flags import add_program_flags, keywords_of, name_program
from baselines.cli.progress import EpisodeCount
from baselines.cli.settings_flags import add_knobs, flag, given_knobs, read_knobs
from baselines.cli.terminal import say, say_loading
from baselines.cli.train import add_model_flags, missing
from baselines.experiment.cohorts import CohortScore
from baselines.experiment.config_trust import Uses
from baselines.experiment.evaluation import WITHOUT_MODEL, EvaluationSettings, Players, run_evaluation
from baselines.experiment.experiment import DEFAULT_MODEL, Experiment, read_models
from baselines.experiment.presets import PRESETS, usual_preset
from baselines.experiment.trained_team import TeamSettings, experiment_of
from baselines.results.visible_console import TABLE_WIDTH, console
from marft_agents.generation.engine_settings import EngineSettings
from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.base_settings import LoraSettings
from marft_agents.models.context_window import ContextSettings
from marft_agents.policies.partners import RemoteSettings, split_item
from marft_agents.policies.policy import Policy
from marft_agents.policies.remote import RemotePolicy
from marft_agents.rollouts.rollout import MAX_TURNS
from marft_agents.runs.evaluation import NUM_ENVS, Evaluation, evaluate
from marft_agents.runs.run_folder import EVALUATION_FILE
from marft_agents.runs.schedule import TrainingSchedule

if TYPE_CHECKING:  # it imports torch, which flags and scripts do not need
    from marft_agents.policies.language_model import LanguageModelTeam

LOCAL = ("device", "dtype", "retain", ContextSettings, EngineSettings)  # flags of models that run here


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `marft eval`."""
    add_run_flags(parser, out="folder for the results")
    add_program_flags(parser)
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="DIR",
        help=TRAINED,
    )
    add_scenario_flags(parser)
    parser.add_argument(
        "--num-envs",
        type=int,
        metavar="N",
        help=f"games played at the same time; fewer long ones fit into memory better (default: {NUM_ENVS})",
    )
    parser.add_argument(
        "--retain",
        action="store_true",
        default=None,
        help="also measure what training took away: perplexity and answers of each adapter and of its base on the "
        "embedded general set `retain`",
    )
    parser.add_argument(
        "--policy",
        choices=tuple(WITHOUT_MODEL),
        help="play without a model: the solution (scripted), or random text",
    )
    parser.add_argument(
        "--max-leak-rate",
        type=_share,
        metavar="X",
        help="exit with 1 if a secret leaks in a larger share of the episodes; --canaries plants secrets",
    )
    parser.add_argument("--endpoint", metavar="URL", help="ask an OpenAI-compatible server for --model instead")
    add_model_flags(parser)
    parser.add_argument(
        "--preset", choices=PRESETS, help="sampling parameters of trainings with this preset, without a checkpoint"
    )
    add_environment_flags(parser, split="test")
    add_knobs(parser, SamplingParams, title="sampling (temperature 0 is greedy)")
    add_knobs(parser, ContextSettings, title="context window")
    add_knobs(parser, RemoteSettings, title="remote agents")
    add_knobs(parser, EngineSettings, title="engine of generation")
    add_config(parser, run)


def add_scenario_flags(parser: argparse.ArgumentParser) -> None:
    """Add --other-tools, --limit, --scenarios, --save-scenarios, --max-turns and --seeds."""
    parser.add_argument(
        "--other-tools",
        action="store_true",
        default=None,
        help="allow another tool surface than the checkpoint was trained with",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="play only N scenarios, spread evenly over all")
    parser.add_argument(
        "--scenarios", type=Path, metavar="FILE", help="play exactly the scenarios of a list, see --save-scenarios"
    )
    parser.add_argument(
        "--save-scenarios", type=Path, metavar="FILE", help="write the played scenarios as a list with a checksum"
    )
    parser.add_argument(
        "--max-turns",
        type=int,
        metavar="N",
        help=f"an episode that is not over after so many turns has failed; 0: no limit (default: {MAX_TURNS})",
    )
    parser.add_argument("--seeds", type=_seeds, metavar="S,S", help="sampling seeds (default: 0)")


def _seeds(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    seeds = {int(part) for part in parts if part.isascii() and part.isdigit()}
    if len(seeds) < len(parts):
        raise argparse.ArgumentTypeError(f"found {text!r}, wanted different whole numbers >= 0, like 0,1,2")
    return tuple(map(int, parts))


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, wanted a share from 0 to 1, like 0.05")
    return value


def run(arguments: argparse.Namespace) -> int:
    """Run `marft eval`."""
    name_program(arguments)
    if arguments.env is None or arguments.out is None:
        raise ValueError(f"marft eval needs --env ID and --out DIR: {missing(arguments, 'env', 'out')}")
    if arguments.policy is not None:
        _refuse_with_policy(arguments)
    elif arguments.endpoint is not None:
        _refuse_with_endpoint(arguments)
    if arguments.preset and arguments.checkpoint is not None:
        raise ValueError("--preset is for a team without --checkpoint, which is sampled as in its training")
    if arguments.checkpoint is not None:
        say_loading(())
    schedule = TrainingSchedule(**{"num_envs": NUM_ENVS} | given_knobs(arguments, TrainingSchedule))
    settings = EvaluationSettings(
        arguments.env,
        keywords_of(arguments),
        limit=arguments.limit,
        scenarios=arguments.scenarios,
        save_scenarios=arguments.save_scenarios,
        seeds=arguments.seeds or (0,),
        max_turns=schedule.max_turns,
        num_envs=schedule.num_envs,
        checkpoint=arguments.checkpoint,
        other_tools=bool(arguments.other_tools),
        policy=arguments.policy,
        endpoint=arguments.endpoint,
        remote=given_knobs(arguments, RemoteSettings),
    )
    found = run_evaluation(
        settings,
        arguments.out,
        partial(_players, arguments),
        play=partial(evaluate_with_bar, title=arguments.env),
        retain=_retained if arguments.retain else None,
    )
    print_results({arguments.env: found.result}, rules=found.has_rules)
    print_details(found.result, found.cohorts)
    if found.retained is not None:
        from baselines.results.retained_ability import table as retained_table

        console(width=TABLE_WIDTH).print(retained_table(found.retained))
    say(f"results: {arguments.out / EVALUATION_FILE}")
    if (most := arguments.max_leak_rate) is not None:
        rate = found.result.leaks[0].rate
        if rate is None:  # without secrets nothing leaks, and the gate would pass unseen
            raise ValueError("--max-leak-rate cannot be decided: no episode has a secret; plant some with --canaries")
        if rate > most:
            say(f"failed: the leak rate is {rate:.4g}, wanted at most {most:g}")
            return 1
    return 0


def _retained(team: LanguageModelTeam) -> Mapping[str, Any]:
    from baselines.results.retained_ability import retained

    return retained(team)


def _refuse_with_policy(arguments: argparse.Namespace) -> None:
    """Raise ValueError for a flag of models beside --policy."""
    given = _given(arguments, "checkpoint", "model", "endpoint", *LOCAL, "preset", SamplingParams, RemoteSettings)
    if given:
        raise ValueError(f"--policy {arguments.policy} plays without a model: leave out {given}")


def _refuse_with_endpoint(arguments: argparse.Namespace) -> None:
    """Raise ValueError for an endpoint that is no URL, or a flag of models that run here beside it."""
    if not arguments.endpoint.startswith(("http://", "https://")):
        raise ValueError(f"--endpoint {arguments.endpoint}: wanted a URL, like http://localhost:8000/v1")
    if given := _given(arguments, *LOCAL):
        raise ValueError(f"--endpoint {arguments.endpoint} plays elsewhere: leave out {given}, of models that run here")


def _given(arguments: argparse.Namespace, *names: str | type[Any]) -> str:
    """Return those flags that are given, of some names and of the fields of settings; empty if there are none."""
    given: list[str] = []
    for name in names:
        if isinstance(name, str):
            given += [name] if getattr(arguments, name) is not None else []
        else:
            given += given_knobs(arguments, name)
    return ", ".join(map(flag, given))


def _players(arguments: argparse.Namespace, env: Any) -> Players:
    """Load the players; flags override the settings of the checkpoint."""
    if arguments.policy is not None:
        return Players(WITHOUT_MODEL[arguments.policy](), SamplingParams(), None, None)
    trained = None
    if arguments.checkpoint is not None:
        # The environment comes from flags: of the checkpoint's record only models that no flag replaces are used.
        replaced = [split_item(item)[0] for item in arguments.model or ()]
        uses = Uses(only=() if "*" in replaced else ("models",), but=[f"models.{agent}" for agent in replaced])
        trained = experiment_of(arguments.checkpoint, uses, trust=arguments.trust_config)
    law = dataclasses.asdict(trained.sampling) if trained else _law_of_preset(arguments.preset)
    sampling = read_knobs(arguments, SamplingParams, law)
    if arguments.endpoint is not None:
        if not arguments.model:
            raise ValueError("--endpoint needs --model NAME, the model's name on that server")
        if len(arguments.model) > 1:
            raise ValueError(f"--endpoint asks one model: found --model {' '.join(arguments.model)}, wanted one NAME")
        return Players(_remote(arguments, sampling), sampling, None, arguments.model)
    settings = TeamSettings(
        models=chosen_models(arguments.model, trained),
        sampling=sampling,
        context=read_knobs(arguments, ContextSettings, dataclasses.asdict(trained.context) if trained else {}),
        lora=trained.lora if trained else LoraSettings(),
        sharing=trained.sharing if trained else "separate",
        dtype=arguments.dtype or (trained.dtype if trained else "auto"),
        checkpoint=arguments.checkpoint,
        remote=read_knobs(arguments, RemoteSettings, dataclasses.asdict(trained.remote) if trained else {}),
        engine=read_knobs(arguments, EngineSettings, {}),  # that of training was for its machine
    )
    say_loading(settings.models.values())
    settings.check(env)
    if trained is None:
        _say_other_law(arguments, sampling)
    return Players.of_team(settings, env, devices_of(arguments.device))


def _law_of_preset(preset: str | None) -> dict[str, Any]:
    """Return the sampling parameters that a preset sets."""
    names = {field.name for field in dataclasses.fields(SamplingParams)}
    return {name: value for name, value in PRESETS[preset].items() if name in names} if preset else {}


def _say_other_law(arguments: argparse.Namespace, sampling: SamplingParams) -> None:
    """Say where an untrained team is sampled in another way than it would be in training."""
    task = marft_envs.spec(arguments.env).task
    preset = arguments.preset or usual_preset(task, arguments.data or "")
    trained, played = SamplingParams(**_law_of_preset(preset)), dataclasses.asdict(sampling)
    other = {name: value for name, value in dataclasses.asdict(trained).items() if played[name] != value}
    if other:
        here = ", ".join(f"{name} {played[name]:g}" for name in other)
        there = ", ".join(f"{value:g}" for value in other.values())
        say(f"plays at {here}; a training with --preset {preset} at {there}", error=True)


def chosen_models(given: Sequence[str] | None, trained: Experiment | None) -> dict[str, str]:
    """Return the model name by agent: those of the flags, else those of the trained team, else smollm2-135m.

    Args:
        given: Values of --model; AGENT=MODEL replaces that of one agent of a trained team, MODEL all of them.
        trained: Experiment of the checkpoint, if there is one.
    """
    models = read_models(list(given or ()))
    if trained is not None and "*" not in models:
        models = {**trained.models, **models}
    return models or {"*": DEFAULT_MODEL}


def _remote(arguments: argparse.Namespace, sampling: SamplingParams) -> RemotePolicy:
    remote = read_knobs(arguments, RemoteSettings, {})
    return RemotePolicy(arguments.endpoint, arguments.model[0], sampling, **remote.of_endpoint())


def evaluate_with_bar(
    make_env: Any,
    policy: Policy,
    options: Sequence[Mapping[str, Any]],
    *,
    seeds: Sequence[int],
    title: str,
    agents: int,
    max_turns: int = MAX_TURNS,
    num_envs: int = NUM_ENVS,
) -> Evaluation:
    """Evaluate a policy and show the progress; an episode is expected to take one turn of each of the `agents`."""
    with EpisodeCount(title, len(options) * len(seeds), turns=agents) as count:
        return evaluate(
            make_env,
            policy,
            options,
            seeds=seeds,
            num_envs=num_envs,
            on_end=lambda played: count.advance(turns=len(played.turns)),
            on_turn=count.turn,
            max_turns=max_turns,
        )


def print_results(results: Mapping[str, Evaluation], *, rules: bool = False) -> None:
    """Print a table with a row per evaluation.

    Args:
        results: Evaluations by label of their row.
        rules: True shows the rate of rule violations, for tasks that have rules.
    """
    table = Table("evaluation", "accuracy [95 % interval]", "tokens/episode", "ideal cache", "episodes", "failed")
    if rules:
        table.add_column("violations")
    shortened = any(result.prompts_shortened for result in results.values())
    if shortened:
        table.add_column("prompts shortened")
    for label, result in results.items():
        row = [label, str(result.accuracy), f"{result.tokens_per_episode:.1f}", _computed(result)]
        row += [str(len(result.trajectories)), str(result.failures)]
        if rules:
            row.append("-" if result.violations is None else f"{result.violations:.3f}")
        if shortened:
            row.append(f"{result.prompts_shortened:.1%}")
        table.add_row(*row)
    console(width=TABLE_WIDTH).print(table)


def print_details(result: Evaluation, cohorts: Sequence[CohortScore]) -> None:
    """Print the return, tool statistics, shares of the agents, and scores by cohort; each where there is something."""
    if result.mean_return is not None:
        terms = "; terms: " + ", ".join(f"{name} {value:.3f}" for name, value in result.terms.items())
        say(f"mean return {result.mean_return:.3f}" + (terms if result.terms else ""))
    team, agents = result.tools
    if team.calls or team.handoffs:
        table = Table("tools", "calls", "failed", "selection", "hand-offs", "hand-off loops")
        for name, use in {**agents, "team": team}.items():
            selection = "-" if use.selection is None else f"{use.selection:.3f}"
            table.add_row(name, str(use.calls), str(use.failures), selection, str(use.handoffs), str(use.loops))
        console(width=TABLE_WIDTH).print(table)
    secrets, owners = result.leaks
    if owners:
        table = Table("secrets of", "to keep", "leaked", "to agents", "outside", "leak rate", "needed", "passed on")
        for name, one in {**owners, "team": secrets}.items():
            rate = "-" if one.rate is None else f"{one.rate:.3f}"
            counts = (one.secrets, one.leaked, one.to_agents, one.outside, rate, one.needed, one.passed_on)
            table.add_row(name, *map(str, counts))
        console(width=TABLE_WIDTH).print(table)
    if len(sharing := result.sharing) > 1:
        columns = next(iter(sharing.values()))
        table = Table("shares of", *columns)
        for agent, shares in sharing.items():
            table.add_row(agent, *("-" if value is None else f"{value:.3g}" for value in shares.values()))
        console(width=TABLE_WIDTH).print(table)
    samples = result.scores.shape[1]
    if len(cohorts) > 1 or samples > 1:
        title = "accuracy" if samples == 1 else f"avg@{samples}"
        table = Table("scenarios of", "number", "failed", f"{title} [95 % interval]")
        if samples > 1:
            table.add_column(f"pass^{samples} [95 % interval]")
        for row in cohorts:
            name = "all" if row.cohort is None else "=".join(row.cohort)
            cells = [name, str(row.scenarios), str(row.failed), str(row.average)]
            if samples > 1:
                cells.append(str(row.pass_hat.get(samples, "-")))
            table.add_row(*cells)
        console(width=TABLE_WIDTH).print(table)


def _computed(result: Evaluation) -> str:
    """Return the mean tokens per episode that an ideal KV cache computes; "-" if they are not counted."""
    found = None if result.ledger is None else result.ledger.team.ideal_cache_tokens
    return "-" if result.ledger is None or found is None else f"{found / result.ledger.episodes:.1f}"
