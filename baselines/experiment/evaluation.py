"""Evaluation of a team on a fixed list of scenarios: `evaluation.json` with all scores, and `episodes.jsonl`.

from baselines import evaluate

print(evaluate("runs/duo", "runs/duo/test", limit=100).accuracy)
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from baselines.experiment.cohorts import Cohorts, CohortScore, cohort_scores
from baselines.experiment.config_trust import Uses
from baselines.experiment.environments import factory, keep_grades, notes_of, scenarios, settings_of, versioned_id
from baselines.experiment.gold_answers import ScriptedView
from baselines.experiment.run_surface import keep_surface
from baselines.experiment.scenario_lists import ScenarioList, scenario_list
from baselines.experiment.scenario_lists import read as read_scenarios
from baselines.experiment.trained_team import PLAYERS, TeamSettings, experiment_of
from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.context_window import ContextSettings
from marft_agents.policies.partners import models_of
from marft_agents.policies.policy import Policy
from marft_agents.policies.scripted import RandomPolicy, ScriptedPolicy
from marft_agents.rollouts.rollout import MAX_TURNS
from marft_agents.rollouts.text_spaces import refuse_unsuitable
from marft_agents.runs.evaluation import NUM_ENVS, Evaluation
from marft_agents.runs.evaluation import evaluate as play_scenarios
from marft_agents.runs.folder_lock import owned
from marft_agents.runs.run_folder import EVALUATION_FILE, check_free, episode_record, replacing, versions, write_json
from marft_envs.registration.factory import takes
from marft_envs.tasks.tools.tool_access import check_surface

if TYPE_CHECKING:  # they import torch, which players without a model do not need
    from marft_agents.policies.language_model import LanguageModelTeam
    from marft_agents.policies.team_building import Devices

WITHOUT_MODEL: Mapping[str, Callable[[], Policy]] = {
    "scripted": partial(ScriptedPolicy, lambda _, observation: observation),  # the view shows agents their action
    "random": RandomPolicy,
}
SPLIT = "test"  # split that is played where none is given


@dataclass(frozen=True)
class EvaluationSettings:
    """Environment and scenarios of an evaluation, and what its record says of the players.

    Attributes:
        env: Id of the environment.
        keywords: Keywords for `marft_envs.make`, as values that JSON can hold.
        limit: Largest number of scenarios, spread evenly over all; None plays all.
        scenarios: File of a scenario list to play instead.
        save_scenarios: File to write the played scenarios to.
        seeds: Seeds of the sampling; each scenario is played once per seed.
        max_turns: Most turns of an episode; 0: no limit.
        num_envs: Number of games played at the same time.
        checkpoint: Checkpoint or run whose team plays.
        other_tools: True allows another tool surface than the checkpoint was trained with.
        policy: Name in `WITHOUT_MODEL`, for players without a model.
        endpoint: URL of a server that plays.
        remote: Limits of requests that were given, by name.

    Raises:
        ValueError: There is no seed, or `num_envs` is below 1.
    """

    env: str
    keywords: Mapping[str, Any] = field(default_factory=dict)
    limit: int | None = None
    scenarios: Path | None = None
    save_scenarios: Path | None = None
    seeds: Sequence[int] = (0,)
    max_turns: int = MAX_TURNS
    num_envs: int = NUM_ENVS
    checkpoint: Path | None = None
    other_tools: bool = False
    policy: str | None = None
    endpoint: str | None = None
    remote: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not self.seeds:
            raise ValueError("seeds: found none, wanted at least one")
        if self.num_envs < 1:  # refused where games are played too, but by then a model is loaded
            raise ValueError(f"num_envs: found {self.num_envs}, wanted at least 1")


class Players(NamedTuple):
    """The players of an evaluation, as its record names them.

    Attributes:
        policy: Policy of all agents; a team of language models and a remote policy are closed at the end.
        sampling: Sampling parameters of all agents.
        context: Context window; None for an endpoint, which enforces its own, and for players without a model.
        models: Names of the bases, or by agent where an agent is frozen or remote; None without a model.
    """

    policy: Policy
    sampling: SamplingParams
    context: ContextSettings | None
    models: list[str] | dict[str, str] | None

    @classmethod
    def of_team(cls, settings: TeamSettings, env: Any, device: Devices = None) -> Players:
        """Load a team of language models, which has passed `TeamSettings.check`."""
        team = settings.load(env.possible_agents, device)
        partners = any(model.kind for model in models_of(env.possible_agents, settings.models).values())
        names = dict(settings.models) if partners else sorted({local.base.name for local in team.local_agents.values()})
        return cls(team, settings.sampling, settings.context, names)


class Evaluated(NamedTuple):
    """Results of `run_evaluation`.

    Attributes:
        result: All scores and episodes.
        cohorts: Scores of all scenarios, then of each cohort.
        retained: Result of `retain`; None where it was not asked for.
        has_rules: True if the environment has tools, whose rules may be violated.
    """

    result: Evaluation
    cohorts: list[CohortScore]
    retained: Mapping[str, Any] | None
    has_rules: bool


def evaluate(
    run: Path | str,
    out: Path | str,
    *,
    env: str | None = None,
    keywords: Mapping[str, Any] | None = None,
    device: Devices = None,
    trust: bool = False,
    **settings: Any,
) -> Evaluation:
    """Evaluate a trained team, and write what `marft eval --checkpoint RUN --out DIR` writes.

    Args:
        run: A run (its newest checkpoint), RUN@best, RUN@update-00012, or a checkpoint.
        out: Folder for `evaluation.json` and `episodes.jsonl`.
        env: Id of the environment; None: that of the training, with its keywords.
        keywords: Keywords for `marft_envs.make`, in place of those of the training; the split is "test" unless given.
        device: Device of the models, see `build_team`.
        trust: True to act on the record of somebody else.
        **settings: Fields of `EvaluationSettings`: `limit`, `scenarios`, `seeds`, `num_envs`, ...

    Raises:
        CheckpointError: There is no such checkpoint, or it is of another team.
        RunFolderError: `out` holds results, or has another writer.
        UnknownEnvironmentError: The training registered its environment in its own program, as `Experiment(tasks)`
            does; make the experiment here first.
        UntrustedConfigError: Somebody else wrote the record, and it names modules, servers or paths.
        ValueError: The environment or the scenarios cannot be played.
    """
    path = Path(run)
    given = dict(keywords or {})
    replaced = [f"keywords.{name}" for name in ("split", *given)]
    uses = PLAYERS if env else Uses(only=("env", "models", "keywords"), but=replaced)
    trained = experiment_of(path, uses, trust=trust)
    if env is None:
        env = trained.env
        given = {name: value for name, value in trained.keywords.items() if name != "split"} | given
    # Prompts that are too long are treated as in training, as by the command.
    players = dataclasses.replace(TeamSettings.of_run(trained, path), context=trained.context)
    split = {"split": SPLIT} if takes(env, "split") else {}
    asked = EvaluationSettings(env, split | given, checkpoint=path, **settings)

    def open_players(game: Any) -> Players:
        players.check(game)
        return Players.of_team(players, game, device)

    return run_evaluation(asked, Path(out), open_players).result


def run_evaluation(
    settings: EvaluationSettings,
    out: Path,
    open_players: Callable[[Any], Players],
    *,
    play: Callable[..., Evaluation] | None = None,
    retain: Callable[[LanguageModelTeam], Mapping[str, Any]] | None = None,
) -> Evaluated:
    """Play the scenarios and write the results; everything is refused before a model is loaded.

    Args:
        settings: Environment and scenarios.
        out: Folder for the results; it has one writer, and holds no others.
        open_players: Makes the players from the environment.
        play: Plays the scenarios as `marft_agents.runs.evaluation.evaluate` does, and gets the number of `agents` too:
            the command shows its progress so. None shows none.
        retain: Measures what training took away from a team of language models, see
            `baselines.results.retained_ability.retained`.
    """
    with owned(out):
        check_free(out)
        make_env = factory(settings.env, settings.keywords)
        env = make_env()
        keep_grades(env, out)
        refuse_unsuitable(env)
        tool_surface = notes_of(env).get("tool_surface")
        path = settings.checkpoint
        if path is not None:
            from marft_agents.runs import checkpoint

            path = checkpoint.resolve(path)  # a run stands for its newest checkpoint, which may be another one tomorrow
            check_surface(checkpoint.notes_of(path).get("tool_surface"), tool_surface, allow=settings.other_tools)
        env_id = versioned_id(settings.env)  # so that the record repeats where a newer version comes out
        options, chosen = chosen_scenarios(env, env_id, settings.limit, settings.scenarios)
        if settings.save_scenarios is not None:
            chosen.write(Path(settings.save_scenarios))
        players = open_players(env)
        if settings.policy == "scripted":
            make_env = partial(ScriptedView.of, make_env)
        with contextlib.ExitStack() as stack:
            if close := getattr(players.policy, "close", None):
                stack.callback(close)
            retained = None if retain is None else retain(cast("LanguageModelTeam", players.policy))
            result = (play or _play)(
                make_env,
                players.policy,
                options,
                seeds=settings.seeds,
                max_turns=settings.max_turns,
                num_envs=settings.num_envs,
                agents=len(env.possible_agents),
            )
        cohorts = cohort_scores(result.scores, Cohorts.of(chosen.cohorts))
        record = {
            **_settings_record(settings, env_id, env, players, path),
            "scenarios": options,
            "scenario_file": None if settings.scenarios is None else str(Path(settings.scenarios).resolve()),
            **chosen.record(),
            "retained": None if retained is None else {name: each.to_dict() for name, each in retained.items()},
            "by_cohort": [row.to_dict() for row in cohorts],
        }
        keep_surface(env, out)
        save_evaluation(out, result, record)
    return Evaluated(result, cohorts, retained, tool_surface is not None)


def _settings_record(
    settings: EvaluationSettings, env_id: str, env: Any, players: Players, path: Path | None
) -> dict[str, Any]:
    """Return the entries of evaluation.json that say what was played, by whom (the checkpoint `path`) and how."""
    return {
        "env": env_id,
        "keywords": settings.keywords,
        "settings": settings_of(env),
        "models": players.models,
        "policy": settings.policy,
        "endpoint": settings.endpoint,
        "checkpoint": None if path is None else str(path),
        "law": dataclasses.asdict(players.sampling),  # under the name that records have had from the start
        "context": None if players.context is None else dataclasses.asdict(players.context),
        "remote": settings.remote or None,
        "seeds": list(settings.seeds),
        "max_turns": settings.max_turns,
    }


def _play(make_env: Any, policy: Policy, options: Any, *, agents: int, **limits: Any) -> Evaluation:
    return play_scenarios(make_env, policy, options, **limits)


def chosen_scenarios(
    env: Any, env_id: str, limit: int | None, file: Path | None
) -> tuple[list[dict[str, Any]], ScenarioList]:
    """Return the reset options of the scenarios that a limit or a file chooses, and the list of them.

    Raises:
        ValueError: Both are given, or the file is no scenario list of this environment.
    """
    if file is None:
        options = scenarios(env, limit)
    elif limit is not None:
        raise ValueError("--scenarios names the scenarios to play: leave out --limit")
    else:
        options = read_scenarios(Path(file)).options(env, env_id)
    return options, scenario_list(env, options, env_id)


def save_evaluation(out: Path, result: Evaluation, record: Mapping[str, Any]) -> None:
    """Write evaluation.json and episodes.jsonl to a folder."""
    out.mkdir(parents=True, exist_ok=True)
    with replacing(out / "episodes.jsonl") as stream:
        for trajectory in result.trajectories:
            stream.write(json.dumps(episode_record(0, trajectory, whole=True), ensure_ascii=False) + "\n")
    summary = {
        "accuracy": None if math.isnan(result.accuracy.mean) else result.accuracy.mean,
        "interval_95": [result.accuracy.low, result.accuracy.high],
        "return": result.mean_return,
        "terms": result.terms,
        "violations": result.violations,
        "prompts_shortened": result.prompts_shortened,
        "prompt_tokens": result.prompt_tokens,
        "tokens_per_episode": result.tokens_per_episode,
        "failures": result.failures,
        "ledger": None if result.ledger is None else result.ledger.to_dict(),
        "tools": _tools(result),
        "leaks": _leaks(result),
        "sharing": result.sharing or None,
        "scores": _grid(result.scores),
        "returns": _grid(result.returns),
        "tokens": _grid(result.tokens),
        "violation": None if result.violation is None else _grid(result.violation),
        "leak": None if result.leak is None else _grid(result.leak),
        "versions": versions(),
    }
    write_json(out / EVALUATION_FILE, {**record, **summary}, own=True)


def _grid(values: npt.NDArray[np.float64]) -> list[list[float | None]]:
    """Return a grid [scenarios, seeds] for JSON, with null for failed episodes."""
    return [[None if math.isnan(value) else value for value in row] for row in values.tolist()]


def _tools(result: Evaluation) -> dict[str, Any] | None:
    """Return the tool statistics for JSON; None where no episode has a record."""
    team, agents = result.tools
    if not team.episodes:
        return None
    return {"team": team.to_dict(), "agents": {agent: use.to_dict() for agent, use in agents.items()}}


def _leaks(result: Evaluation) -> dict[str, Any] | None:
    """Return the counts of secrets for JSON; None where no episode has any."""
    team, agents = result.leaks
    if not agents:
        return None
    return {"team": team.to_dict(), "agents": {agent: found.to_dict() for agent, found in agents.items()}}
