"""Experiment record: environment, models, algorithm and all settings, with a JSON round trip."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baselines.experiment.config_trust import EVERYTHING, UntrustedConfigError, Uses, read_config
from baselines.experiment.environments import (
    KEYWORDS,
    current_id,
    factory,
    refuse_elsewhere,
    registered,
    tasks_of,
    versioned_id,
)
from baselines.experiment.held_out_validation import ValidationSettings
from baselines.experiment.presets import DEFAULT_PRESET, PRESETS
from baselines.experiment.progress import Progress, silent
from baselines.experiment.samplers import OWN, check_play
from marft_agents.generation.engine_settings import EngineSettings
from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.algorithms import learner_settings, settings_for
from marft_agents.learning.rank_settings import RankSettings
from marft_agents.learning.settings import LearnerSettings
from marft_agents.models.base_settings import Dtype, LoraSettings, Sharing
from marft_agents.models.context_window import ContextSettings
from marft_agents.models.random_models import OWN_WORDS
from marft_agents.monitoring.alarm_rules import HealthSettings
from marft_agents.monitoring.trackers import TrackingSettings
from marft_agents.policies.partners import RemoteSettings, agent_model, models_of, split_item
from marft_agents.rollouts.program_games import programs_of
from marft_agents.rollouts.rollout_settings import OFF, RolloutSettings, refuse_uncorrected
from marft_agents.rollouts.text_spaces import refuse_unsuitable
from marft_agents.runs.folder_lock import RunFolderError
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.setting_fields import SettingsError
from marft_common.close_names import did_you_mean
from marft_envs import Tasks, TaskSet, Team
from marft_envs.game.task import JudgingTasks
from marft_envs.teams.team import as_team

if TYPE_CHECKING:  # they import torch, which settings do not need
    from baselines.experiment.training import ReadPools
    from marft_agents.learning.learner import Learner
    from marft_agents.learning.ranks import Ranks
    from marft_agents.policies.language_model import LanguageModelTeam
    from marft_agents.policies.team_building import Devices

SETTINGS: Mapping[str, tuple[type[Any], str]] = {
    "learner": (LearnerSettings, "learner"),
    "schedule": (TrainingSchedule, "schedule"),
    "law": (SamplingParams, "sampling"),
    "context": (ContextSettings, "context window"),
    "lora": (LoraSettings, "adapters"),
    "health": (HealthSettings, "stability"),
    "validation": (ValidationSettings, "validation"),
    "remote": (RemoteSettings, "remote agents"),
    "rollouts": (RolloutSettings, "rollouts"),
    "tracking": (TrackingSettings, "tracking"),
    "ranks": (RankSettings, "data-parallel learner"),
    "engine": (EngineSettings, "engine of generation"),
}
ATTRIBUTES: Mapping[str, str] = {table: table for table in SETTINGS} | {"law": "sampling"}
"""Table of settings in a config file -> attribute of an experiment."""


DEFAULT_MODEL = "smollm2-135m"


@dataclass(frozen=True, init=False, kw_only=True)
class Experiment:
    """Complete configuration of a training run, and the front door to it: `Experiment(...).run(out)`.

    Args:
        env: Id of the environment, without a version the newest. Or a set of tasks to train on, or sets by split
            ("train", "test"), which are registered with the team for this process, see `registered`.
        team: Team in place of the environment's own, its JSON form or the name of a preset; None: its own.
        preset: Preset with the settings that are neither given nor set by the algorithm.
        models: Model name of all agents, or by agent.
        **settings: Settings named as the flags of `marft train`: attributes of an experiment (`algorithm`, `keywords`,
            ...), and fields of its parts (`updates`, `policy_lr`, `temperature`, ...). A part that is given whole is
            taken as it is. Where all are, as by `from_dict` and `dataclasses.replace`, nothing is looked up.

    Raises:
        SettingsError: A setting is unknown or out of range, or contradicts another one or the algorithm; or nobody is
            to play a set of tasks.
        TeamError: The team cannot be read.
        UnknownEnvironmentError: No environment is registered under the id.

    Examples:
        >>> experiment = Experiment("marft/gsm8k_duo-v0", models="tiny", algorithm="grpo", updates=3)
        >>> experiment.schedule.updates, experiment.learner.baseline
        (3, 'group')

    Attributes:
        env: Id of the environment, with its version.
        keywords: Keywords for `marft_envs.make`, as values that JSON can hold.
        algorithm: Name of a training algorithm in `marft_agents.learning.algorithms.ALGORITHMS`.
        models: Model name by agent (see `policies.partners`); the key "*" stands for all other agents.
        sharing: "separate" gives each agent a LoRA adapter, "shared" one adapter to all.
        learner: Settings of the policy and value updates.
        schedule: Number of updates, budget of tokens, prompt groups and parallel environments, and the seed.
        sampling: Sampling parameters of generation.
        lora: Settings of the LoRA adapters, such as rank and alpha.
        health: Conditions of alarms, and whether the run is rolled back after one.
        validation: Held-out tasks to play during training, and their interval in updates.
        sampler: Engine of the training episodes: "own", "vllm" or the URL of a server; with Ray one URL per worker,
            separated by commas.
        canary: True to check after each update that the engine plays the current adapters.
        context: Context window in tokens, and the treatment of longer prompts.
        remote: Limits of requests to remote agents.
        rollouts: Where episodes are played: in this process, or by the workers of a Ray cluster.
        tracking: Trackers that get the metrics, beside the files of the run folder.
        ranks: Number of processes that share the passes of each update.
        engine: Engine of generation and its sizes; `sized` chooses those that are 0.
        start_from: Checkpoint or run whose adapters the training starts from; None: untrained ones.
        replay_from: Turn file whose turns `replay_share` mixes into updates; None: solved episodes of the run itself.
        dtype: Dtype of the frozen bases, see `build_team`.
    """

    env: str
    keywords: Mapping[str, Any]
    algorithm: str = "marft-a"
    models: Mapping[str, str]
    sharing: Sharing = "separate"
    learner: LearnerSettings
    schedule: TrainingSchedule
    sampling: SamplingParams
    lora: LoraSettings
    health: HealthSettings
    validation: ValidationSettings
    sampler: str = OWN
    context: ContextSettings
    remote: RemoteSettings
    canary: bool = True
    rollouts: RolloutSettings
    tracking: TrackingSettings
    ranks: RankSettings
    engine: EngineSettings
    start_from: str | None = None
    replay_from: str | None = None
    dtype: Dtype = "auto"

    def __init__(
        self,
        env: str | Tasks | Mapping[str, Tasks],
        *,
        team: Team | Mapping[str, Any] | str | None = None,
        preset: str = DEFAULT_PRESET,
        models: str | Mapping[str, str] = DEFAULT_MODEL,
        **settings: Any,
    ) -> None:
        kinds = {ATTRIBUTES[table]: kind for table, (kind, _) in SETTINGS.items()}
        parts = {name: settings.pop(name) for name, kind in kinds.items() if isinstance(settings.get(name), kind)}
        recorded = parts.keys() == kinds.keys()
        if not recorded:
            parts |= _parts(settings, preset, parts)
        fields = {field.name for field in dataclasses.fields(self)} - kinds.keys()
        if unknown := settings.keys() - fields:
            raise SettingsError(_no_setting(min(unknown), settings, kinds, fields))
        keywords = settings.pop("keywords", {})
        if not recorded:
            for name in ("start_from", "replay_from"):
                if settings.get(name) is not None:
                    settings[name] = str(Path(settings[name]).expanduser().resolve())
            env, keywords = _environment(env, team, keywords)
            named = {"*": models} if isinstance(models, str) else models
            models = {agent: read_model(model) for agent, model in named.items()}
        for name, value in {"env": env, "keywords": keywords, "models": models, **settings, **parts}.items():
            object.__setattr__(self, name, value)

    def to_dict(self) -> dict[str, Any]:
        """Return the experiment as a record for JSON."""
        tables = {attribute: table for table, attribute in ATTRIBUTES.items()}
        record = {}
        for each in dataclasses.fields(self):
            record[tables.get(each.name, each.name)] = _plain(getattr(self, each.name))
        return record

    @classmethod
    def load(cls, run: Path, uses: Uses = EVERYTHING, *, trust: bool | None = False) -> Experiment:
        """Read the config.json of a run folder.

        Args:
            run: Folder of the run.
            uses: The settings on which the caller acts; the others need no trust.
            trust: True to act on the record of somebody else.

        Raises:
            RunFolderError: The file is missing, or is not the record of an experiment.
            UntrustedConfigError: This user did not write it here, and it names commands, modules, servers or paths.
        """
        file = run / "config.json"
        try:
            return cls.from_dict(read_config(file, uses, trust=trust), file)
        except UntrustedConfigError:
            raise
        except FileNotFoundError as error:
            raise RunFolderError(
                f"{run} holds no run: config.json is missing; wanted a folder that marft train wrote"
            ) from error
        except (OSError, ValueError) as error:
            raise RunFolderError(f"{file} is no record of a run: {type(error).__name__}: {error}") from error

    @classmethod
    def from_dict(cls, record: Any, where: Path | str = "record") -> Experiment:
        """Make an experiment from the record that `to_dict` returns.

        Raises:
            RunFolderError: The record is not that of an experiment; the message names `where`.
        """
        try:
            parts = {}
            for table, (kind, _) in SETTINGS.items():  # older records lack the newer tables
                parts[ATTRIBUTES[table]] = from_record(kind, record.get(table, {}))
            others = {key: value for key, value in record.items() if key not in SETTINGS and key != "env"}
            if not isinstance(record["env"], str):
                raise TypeError(f"env: found {record['env']!r}, wanted a text")
            return cls(env=current_id(record["env"]), **others, **parts)
        except (AttributeError, KeyError, ValueError, TypeError) as error:
            raise RunFolderError(f"{where} is no record of a run: {type(error).__name__}: {error}") from error

    def scheduled(self, env: Any) -> Experiment:
        """Return the experiment with `updates` computed from its epochs over the tasks of an environment."""
        if not self.schedule.epochs:
            return self
        return dataclasses.replace(self, schedule=self.schedule.for_tasks(len(tasks_of(env, "epochs"))))

    def sized(self, agents: Sequence[str], device: Devices = None) -> Experiment:
        """Return the experiment with the sizes of its engine, which follow from the total memory of the device.

        Args:
            agents: Agents of the environment.
            device: Device of the models, see `build_team`.

        Raises:
            SettingsError: See `EngineSettings.resolved`.
        """
        from marft_agents.policies.team_building import engine_for

        engine = engine_for(agents, self.models, self.sampling, device, self.dtype, self.context, self.engine)
        return dataclasses.replace(self, engine=engine)

    def check(self, env: Any = None) -> LearnerSettings:
        """Check all that needs no model; return the learner's settings with those that the algorithm fixes.

        Args:
            env: Environment of the training; None makes one from `env` and `keywords`.

        Raises:
            SettingsError: The settings cannot be trained in this environment.
            SamplerError: The sampler cannot play this team.
            RemoteError: A remote agent does not answer.
            RolloutWorkerError: Workers of a Ray cluster are asked for, and Ray is missing.
            RankError: Several learners are asked for, and packages of Ray Train are missing.
        """
        from marft_agents.learning.sharding import check_fsdp
        from marft_agents.policies.team_building import check_first_prompts
        from marft_agents.rollouts.ray_workers import check_ray
        from marft_agents.runs.ray_ranks import check_ranks

        if self.ranks.shard_base:
            check_fsdp()
        env = env or factory(self.env, self.keywords)()
        refuse_unsuitable(env)
        learners = trained_agents(env.possible_agents, self.models)
        if not learners:
            raise SettingsError(
                f"all agents are frozen or remote ({', '.join(env.possible_agents)}): wanted at least one to train; "
                "marft eval plays such a team"
            )
        # The settings that the algorithm fixes depend on the team and on the length of the run.
        settings = settings_for(
            self.algorithm,
            self.learner,
            len(learners),
            group_size=self.schedule.group_size,
            updates=self.scheduled(env).schedule.updates,
            shared=self.sharing == "shared",
        )
        if settings.branches and programs_of(env) is not None:
            raise SettingsError(
                f"branches = {settings.branches} (algorithm {self.algorithm}) replays episodes, and a program cannot "
                "be replayed: wanted branches = 0, or another algorithm"
            )
        if settings.chain_links == "reads" and programs_of(env) is None:
            raise SettingsError(
                f"chain_links = 'reads': {self.env} is no agent program, whose requests alone are known by what they "
                "read: wanted chain_links = 'order'"
            )
        if self.sampling.greedy:
            raise SettingsError("temperature = 0, wanted > 0: a greedy policy explores nothing and cannot be trained")
        models = models_of(env.possible_agents, self.models).values()
        sources = {model.source for model in models if model.local}
        check_play(self.sampler, sources, self.sampling, workers=max(1, self.rollouts.rollout_workers))
        refuse_uncorrected(settings, self.rollouts.max_staleness)
        if self.replay_from is not None and not settings.replay_share:
            raise SettingsError(f"replay_from = {self.replay_from!r} has no effect: wanted replay_share > 0, found 0")
        if self.rollouts.ray != OFF:
            refuse_elsewhere(self.env)
        check_ray(self.rollouts)
        check_ranks(self.ranks, self.rollouts)
        check_first_prompts(env, self.models, self.sampling, self.context)
        return settings

    def run(
        self,
        out: Path | str,
        progress: Progress | None = None,
        *,
        device: Devices = None,
        resume: bool = False,
        replay: ReadPools | None = None,
    ) -> dict[str, float]:
        """Train, validate and write the run folder, as `marft train` does.

        The folder has one writer, and gets `config.json`, `versions.json`, `metrics.jsonl`, `episodes.jsonl`, alarms,
        checkpoints and the learning curve.

        Args:
            out: Run folder to write.
            progress: Gets the events of the training, see `baselines.experiment.progress`; None shows nothing.
            device: Device of the models, see `build_team`.
            resume: True continues from the newest checkpoint in `out`; False refuses a folder with results.
            replay: Reads the turn file of `replay_from`, see `baselines.training_data.demonstrations.replay_pools`.

        Returns:
            "success", mean success of the last "window" updates (at most 10), "updates" of the whole run, and "tokens"
            generated for them (missing for a run resumed from a checkpoint that did not count them).

        Raises:
            RunFolderError: The folder cannot be used: it has results, another writer, or other data.
            SettingsError: The settings cannot be trained in this environment.
        """
        from baselines.experiment.training import train

        return train(self, Path(out), progress=progress or silent, device=device, resume=resume, replay=replay)

    def build(self, device: Devices = None, make_env: Any = None) -> tuple[Any, LanguageModelTeam, Learner]:
        """Build the environment factory, the team and the learner.

        All checks that need no model run before any model is loaded.

        Args:
            device: Device of the models, see `build_team`.
            make_env: Existing environment factory; None makes one from `env` and `keywords`.

        Raises:
            SettingsError: The settings cannot be trained in this environment.
            SamplerError: The sampler cannot play this team.
        """
        make_env = make_env or factory(self.env, self.keywords)
        env = make_env()
        team, learner = self.scheduled(env).load_models(env.possible_agents, self.check(env), device)
        return make_env, team, learner

    def load_models(
        self,
        agents: Sequence[str],
        settings: LearnerSettings,
        device: Devices = None,
        ranks: Ranks | None = None,
        replay: ReadPools | None = None,
    ) -> tuple[LanguageModelTeam, Learner]:
        """Load the models of a checked experiment with a known number of updates; return the team and the learner.

        Args:
            agents: Agents of the environment, in order.
            settings: Settings of the learner, see `check`.
            device: Device of the models, see `build_team`.
            ranks: Processes that share the passes of each update; None: this one is alone.
            replay: Reads the turn file of `replay_from`.

        Raises:
            SettingsError: Turns are to be replayed, and there is no reader of their file.
        """
        if self.replay_from is not None and replay is None:
            raise SettingsError(
                f"replay_from = {self.replay_from!r}: no reader of turn files was given, wanted "
                "replay=baselines.training_data.demonstrations.replay_pools"
            )
        from marft_agents.learning.experience_replay import ReplayPools
        from marft_agents.learning.learner import Learner
        from marft_agents.learning.pass_size import fitted
        from marft_agents.learning.ranks import ALONE
        from marft_agents.learning.sharding import shard

        ranks = ranks or ALONE
        sharded = self.ranks.shard_base and ranks.count > 1
        team = self.build_team(agents, device, in_host_memory=sharded)
        if sharded:  # before anything else takes memory on the device
            shard(team.bases, ranks)
        if ranks.count > 1:  # sizes of rank 0: other GPUs may have other memory
            settings = ranks.broadcast(fitted(settings, team))
        updates = self.schedule.max_updates
        learner = Learner(team, settings, seed=self.schedule.seed, total_updates=updates, ranks=ranks)
        if replay is not None and self.replay_from is not None:
            pools = replay(Path(self.replay_from), team)
            learner.replay = ReplayPools(settings.replay_share, pools, seed=self.schedule.seed)
        return team, learner

    def build_team(
        self, agents: Sequence[str], device: Devices = None, *, in_host_memory: bool = False
    ) -> LanguageModelTeam:
        """Load the models of the team, with untrained adapters.

        Args:
            agents: Agents of the environment, in order.
            device: Device of the models, see `build_team`.
            in_host_memory: True loads models that are sharded next, see `build_team`.
        """
        from marft_agents.policies.team_building import build_team

        return build_team(
            agents,
            self.models,
            lora=self.lora,
            sampling=self.sampling,
            sharing=self.sharing,
            seed=self.schedule.seed,
            device=device,
            dtype=self.dtype,
            context=self.context,
            remote=self.remote,
            engine=self.engine,
            in_host_memory=in_host_memory,
        )


def _parts(settings: dict[str, Any], preset: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Take the single settings of all parts that are not given whole out of `settings`; return these parts.

    Args:
        settings: Settings by name; those of other parts remain.
        preset: Name of the preset that sets what is neither given nor set by the algorithm.
        given: Parts that are given whole, by attribute.
    """
    if preset not in PRESETS:
        raise SettingsError(f"preset = {preset!r}, wanted {' or '.join(PRESETS)}")
    defaults = PRESETS[preset]
    if settings.get("epochs") and settings.get("updates") is not None:
        raise SettingsError(
            f"epochs = {settings['epochs']} and updates = {settings['updates']}: updates follow from epochs, "
            "wanted one of the two"
        )
    parts: dict[str, Any] = {}
    for table, (kind, _) in SETTINGS.items():
        name = ATTRIBUTES[table]
        fields = {field.name for field in dataclasses.fields(kind)}
        if name in given:
            if doubled := fields & settings.keys():
                raise SettingsError(
                    f"{min(doubled)} is a setting of {name}, which is given whole: wanted one of the two"
                )
            continue
        single = {key: settings.pop(key) for key in fields & settings.keys()}
        if kind is LearnerSettings:
            parts[name] = learner_settings(settings.get("algorithm", Experiment.algorithm), defaults, **single)
        else:
            parts[name] = from_record(kind, {k: v for k, v in defaults.items() if k in fields} | single)
    return parts


def _no_setting(name: str, settings: Mapping[str, Any], kinds: Mapping[str, type[Any]], fields: Collection[str]) -> str:
    """Return the message about a name that is no setting of an experiment, or of a part that is of another type."""
    if name in kinds:
        single = next(field.name for field in dataclasses.fields(kinds[name]))
        found = type(settings[name]).__name__
        return f"{name}: found {found}, wanted {kinds[name].__name__}, or its settings one by one, like {single}=..."
    if name in KEYWORDS:
        return f"{name}: a keyword of the environment, wanted keywords={{{name!r}: ...}}"
    known = dict.fromkeys((*fields, "models"), "")
    for kind in kinds.values():
        known |= {field.name: field.metadata["help"] for field in dataclasses.fields(kind)}
    told = f"{name}: no setting of an experiment has this name (marft train --help-all shows those there are)"
    return told + did_you_mean(name, known, known, cutoff=0.7)


def _environment(
    env: str | Tasks | Mapping[str, Tasks], team: Team | Mapping[str, Any] | str | None, given: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return the id of an environment with its version, and its keywords as values that JSON can hold."""
    keywords = {name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in given.items()}
    if not isinstance(env, str):
        splits: Mapping[str, Tasks] = env if isinstance(env, Mapping) else {"train": env}
        if wrong := [value for value in splits.values() if not isinstance(value, TaskSet | JudgingTasks)]:
            raise SettingsError(
                f"env: found {type(wrong[0]).__name__}, wanted an id, or tasks, like "
                "TaskSet.from_prompts(prompts, reward)"
            )
        if team is None:
            raise SettingsError(
                f"tasks {', '.join(tasks.name for tasks in splits.values())!r}: team = None, wanted one that plays "
                "them, like team='solo' or team=Team.from_prompts(['Plan the answer.', 'Write the answer.'])"
            )
        env = registered(splits, as_team(team))
    elif team is not None:
        keywords["team"] = team.to_dict() if isinstance(team, Team) else team
    return versioned_id(env), keywords


def from_record(settings: type[Any], record: Mapping[str, Any]) -> Any:
    """Make the settings from their JSON record; lists become tuples."""
    values = {}
    for name, value in record.items():
        values[name] = tuple(value) if isinstance(value, list) else value
    return settings(**values)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return dict(value) if isinstance(value, Mapping) else value


def trained_agents(agents: Sequence[str], models: Mapping[str, str]) -> list[str]:
    """Return the agents of a team that are trained, neither frozen nor remote; see `Experiment.models`."""
    return [agent for agent, model in models_of(agents, models).items() if not model.kind]


def read_models(given: list[str]) -> dict[str, str]:
    """Read `--model NAME` or repeated `--model AGENT=NAME` into model names by agent.

    Raises:
        ValueError: Two models are given for one agent, or the name of a partner is not of its form.
    """
    models: dict[str, str] = {}
    for item in given:
        key, value = split_item(item)
        if key in models:
            raise ValueError(f"--model names {'the team' if key == '*' else key} twice: {models[key]} and {value}")
        models[key] = read_model(value)
    return models


def read_model(name: str) -> str:
    """Return a model name; make the path of a local model absolute.

    Raises:
        ValueError: The name of a partner is not of its form.
    """
    model = agent_model(name)
    if not model.local:
        return name
    path = Path(model.source).expanduser()
    if not model.source.startswith(OWN_WORDS) and path.exists():
        model = dataclasses.replace(model, source=str(path.resolve()))  # so that the run resumes from any folder
    return str(model)
