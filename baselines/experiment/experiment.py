"""Experiment record: environment, models, algorithm and all settings, with a JSON round trip."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baselines.cli.environment_flags import factory, model_folder_or_name, read_keywords, tasks_of, versioned_id
from baselines.cli.settings_flags import from_record, given_knobs, read_knobs
from baselines.experiment.config_trust import EVERYTHING, UntrustedConfigError, Uses, read_config
from baselines.experiment.held_out_validation import ValidationSettings
from baselines.experiment.presets import PRESETS
from baselines.experiment.samplers import OWN, check_play
from baselines.training_data.demonstrations import replay_pools
from marft_agents.generation.engine_settings import EngineSettings
from marft_agents.generation.sampling import SamplingParams
from marft_agents.learning.algorithms import learner_settings, settings_for
from marft_agents.learning.learner import Learner
from marft_agents.learning.ranks import ALONE, Ranks, RankSettings
from marft_agents.learning.replay import ReplayPools
from marft_agents.learning.settings import LearnerSettings
from marft_agents.learning.sharding import check_fsdp, shard
from marft_agents.models.adapted_base import LoraSettings
from marft_agents.models.context_window import ContextSettings
from marft_agents.models.pretrained import Dtype
from marft_agents.monitoring.alarm_rules import HealthSettings
from marft_agents.monitoring.trackers import TrackingSettings
from marft_agents.policies.language_model import (
    Devices,
    LanguageModelTeam,
    Sharing,
    build_team,
    check_first_prompts,
    engine_for,
    models_of,
)
from marft_agents.policies.partners import RemoteSettings, agent_model, split_item
from marft_agents.rollouts.ray_workers import check_ray
from marft_agents.rollouts.rollout_workers import RolloutSettings, refuse_uncorrected
from marft_agents.runs.folder_lock import RunFolderError
from marft_agents.runs.ray_ranks import check_ranks
from marft_agents.runs.trainer import TrainingSchedule, refuse_unsuitable
from marft_agents.setting_fields import SettingsError

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


@dataclass(frozen=True)
class Experiment:
    """Complete configuration of a training run.

    Attributes:
        env: Id of the environment, with its version.
        keywords: Keywords for `marft_envs.make`, as values that JSON can hold.
        algorithm: Name of a training algorithm in `marft_agents.learning.algorithms.ALGORITHMS`.
        models: Model name by agent (see `policies.partners`); the key "*" stands for all other agents.
        sharing: "separate" gives each agent a LoRA adapter, "shared" one adapter to all.
        learner: Settings of the policy and value updates.
        schedule: Number of updates, budget of tokens, prompt groups and parallel environments, and the seed.
        law: Sampling parameters of generation.
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
    algorithm: str
    models: Mapping[str, str]
    sharing: Sharing
    learner: LearnerSettings
    schedule: TrainingSchedule
    law: SamplingParams
    lora: LoraSettings
    health: HealthSettings = HealthSettings()
    validation: ValidationSettings = ValidationSettings()
    sampler: str = OWN
    context: ContextSettings = ContextSettings()
    remote: RemoteSettings = RemoteSettings()
    canary: bool = True
    rollouts: RolloutSettings = RolloutSettings()
    tracking: TrackingSettings = TrackingSettings()
    ranks: RankSettings = RankSettings()
    engine: EngineSettings = EngineSettings()
    start_from: str | None = None
    replay_from: str | None = None
    dtype: Dtype = "auto"

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> Experiment:
        """Make an experiment from the flags of `marft train`.

        Raises:
            SettingsError: Flags are out of range, or contradict each other or the algorithm.
        """
        defaults = PRESETS[arguments.preset]
        given = given_knobs(arguments, TrainingSchedule)
        if given.get("epochs") and given.get("updates") is not None:
            raise SettingsError(
                f"epochs = {given['epochs']} and updates = {given['updates']}: updates follow from epochs, "
                "wanted one of the two"
            )
        parts = {
            name: read_knobs(arguments, kind, defaults) for name, (kind, _) in SETTINGS.items() if name != "learner"
        }
        parts["learner"] = learner_settings(arguments.algorithm, defaults, **given_knobs(arguments, LearnerSettings))
        return cls(
            env=versioned_id(arguments.env),
            keywords=read_keywords(arguments),
            algorithm=arguments.algorithm,
            models=read_models(arguments.model),
            sharing=arguments.sharing,
            dtype=arguments.dtype,
            sampler=arguments.sampler,
            canary=arguments.canary,
            start_from=_absolute(getattr(arguments, "start_from", None)),
            replay_from=_absolute(getattr(arguments, "replay_from", None)),
            **parts,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the experiment as a record for JSON."""
        return {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}

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
            raise RunFolderError(f"{run} holds no run: config.json is missing") from error
        except (OSError, ValueError) as error:
            raise RunFolderError(f"{file} is no record of a run: {type(error).__name__}: {error}") from error

    @classmethod
    def from_dict(cls, record: Any, where: Path | str = "record") -> Experiment:
        """Make an experiment from the record that `to_dict` returns.

        Raises:
            RunFolderError: The record is not that of an experiment; the message names `where`.
        """
        try:
            parts = {name: from_record(kind, record.get(name, {})) for name, (kind, _) in SETTINGS.items()}
            return cls(**{**record, **parts})
        except (AttributeError, ValueError, TypeError) as error:
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
        engine = engine_for(agents, self.models, self.law, device, self.dtype, self.context, self.engine)
        return dataclasses.replace(self, engine=engine)

    def learners(self, agents: Sequence[str]) -> list[str]:
        """Return the agents of a team that are trained, neither frozen nor remote."""
        return [agent for agent, model in models_of(agents, self.models).items() if not model.kind]

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
        if self.ranks.shard_base:
            check_fsdp()
        env = env or factory(self.env, self.keywords)()
        refuse_unsuitable(env)
        learners = self.learners(env.possible_agents)
        if not learners:
            raise SettingsError(
                f"all agents are frozen or remote ({', '.join(env.possible_agents)}): wanted at least one to train; "
                "marft eval plays such a team"
            )
        settings = settings_for(
            self.algorithm,
            self.learner,
            len(learners),
            group_size=self.schedule.group_size,
            updates=self.scheduled(env).schedule.updates,
            shared=self.sharing == "shared",
        )
        if self.law.greedy:
            raise SettingsError("temperature = 0, wanted > 0: a greedy policy explores nothing and cannot be trained")
        models = models_of(env.possible_agents, self.models).values()
        sources = {model.source for model in models if model.local}
        check_play(self.sampler, sources, self.law, workers=max(1, self.rollouts.rollout_workers))
        refuse_uncorrected(settings, self.rollouts.max_staleness)
        if self.replay_from is not None and not settings.replay_share:
            raise SettingsError(f"replay_from = {self.replay_from!r} has no effect: wanted replay_share > 0, found 0")
        check_ray(self.rollouts)
        check_ranks(self.ranks, self.rollouts)
        check_first_prompts(env, self.models, self.law, self.context)
        return settings

    def build(
        self, device: Devices = None, make_env: Any = None, ranks: Ranks = ALONE
    ) -> tuple[Any, LanguageModelTeam, Learner]:
        """Build the environment factory, the team and the learner.

        All checks that need no model run before any model is loaded.

        Args:
            device: Device of the models, see `build_team`.
            make_env: Existing environment factory; None makes one from `env` and `keywords`.
            ranks: Processes that share the passes of each update.

        Raises:
            SettingsError: The settings cannot be trained in this environment.
            SamplerError: The sampler cannot play this team.
        """
        make_env = make_env or factory(self.env, self.keywords)
        env = make_env()
        settings = self.check(env)
        sharded = self.ranks.shard_base and ranks.count > 1
        team = self.build_team(env.possible_agents, device, in_host_memory=sharded)
        if sharded:
            shard(team.bases, ranks)
        updates = self.scheduled(env).schedule.max_updates
        learner = Learner(team, settings, seed=self.schedule.seed, total_updates=updates, ranks=ranks)
        if self.replay_from is not None:
            pools = replay_pools(Path(self.replay_from), team)
            learner.replay = ReplayPools(settings.replay_share, pools, seed=self.schedule.seed)
        return make_env, team, learner

    def build_team(
        self, agents: Sequence[str], device: Devices = None, *, in_host_memory: bool = False
    ) -> LanguageModelTeam:
        """Load the models of the team, with untrained adapters.

        Args:
            agents: Agents of the environment, in order.
            device: Device of the models, see `build_team`.
            in_host_memory: True loads models that are sharded next, see `build_team`.
        """
        return build_team(
            agents,
            self.models,
            lora=self.lora,
            law=self.law,
            sharing=self.sharing,
            seed=self.schedule.seed,
            device=device,
            dtype=self.dtype,
            context=self.context,
            remote=self.remote,
            engine=self.engine,
            in_host_memory=in_host_memory,
        )


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.expanduser().resolve())


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return dict(value) if isinstance(value, Mapping) else value


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
    return str(dataclasses.replace(model, source=model_folder_or_name(model.source))) if model.local else name
