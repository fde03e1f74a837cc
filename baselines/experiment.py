"""An experiment as one record: environment, team of models, algorithm and all settings; JSON round trip."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from baselines.environment import factory, model_folder_or_name, read_keywords, tasks_of, versioned_id
from baselines.flags import from_record, given_knobs, read_knobs
from baselines.presets import PRESETS
from baselines.sampler import OWN, check_play
from baselines.validation import ValidationSettings
from marft_agents.generation.sampling import SamplingLaw
from marft_agents.learning.algorithms import learner_settings, settings_for
from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.models.adapted_base import LoraSettings
from marft_agents.models.context_window import ContextSettings
from marft_agents.monitoring.alarm_rules import HealthSettings
from marft_agents.policies.language_model import LanguageModelTeam, Sharing, build_team, check_first_prompts
from marft_agents.runs.run_folder import RunFolderError
from marft_agents.runs.trainer import Schedule, refuse_unsuitable
from marft_agents.setting_fields import SettingsError

SETTINGS: Mapping[str, tuple[type[Any], str]] = {
    "learner": (LearnerSettings, "learner"),
    "schedule": (Schedule, "schedule"),
    "law": (SamplingLaw, "sampling"),
    "context": (ContextSettings, "context window"),
    "lora": (LoraSettings, "adapters"),
    "health": (HealthSettings, "stability"),
    "validation": (ValidationSettings, "validation"),
}


@dataclass(frozen=True)
class Experiment:
    """Everything that decides what a training run does.

    Attributes:
        env: id of the environment.
        keywords: for `marft_envs.make`, JSON-able.
        algorithm: see `marft_agents.learning.algorithms`.
        models: agent -> model name; "*" stands for all others.
        sharing: one adapter per agent, or one for all.
        learner: settings of the update.
        schedule: how much is played.
        law: how tokens are sampled.
        lora: shape of the adapters.
        health: when alarms are raised, and whether the run is rolled back.
        validation: which held-out tasks are played while the team trains, and how often.
        sampler: what plays the training episodes: own, vllm or the URL of a server.
        context: how long a prompt and its action may be, and what happens to longer prompts.
    """

    env: str
    keywords: Mapping[str, Any]
    algorithm: str
    models: Mapping[str, str]
    sharing: Sharing
    learner: LearnerSettings
    schedule: Schedule
    law: SamplingLaw
    lora: LoraSettings
    health: HealthSettings = HealthSettings()
    validation: ValidationSettings = ValidationSettings()
    sampler: str = OWN
    context: ContextSettings = ContextSettings()

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> Experiment:
        """Read the flags of `marft train`.

        Raises:
            SettingsError: flags out of range, or that contradict each other or the algorithm.
        """
        defaults = PRESETS[arguments.preset]
        given = given_knobs(arguments, Schedule)
        if given.get("epochs") and "updates" in given:
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
            sampler=arguments.sampler,
            **parts,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}

    @classmethod
    def load(cls, run: Path) -> Experiment:
        """Read the config.json of a run folder.

        Raises:
            RunFolderError: there is none, or it is no record of an experiment.
        """
        file = run / "config.json"
        try:
            return cls.from_dict(json.loads(file.read_text(encoding="utf-8")), file)
        except FileNotFoundError as error:
            raise RunFolderError(f"{run} holds no run: config.json is missing") from error
        except (OSError, ValueError) as error:
            raise RunFolderError(f"{file} is no record of a run: {type(error).__name__}: {error}") from error

    @classmethod
    def from_dict(cls, record: Any, where: Path | str = "record") -> Experiment:
        """Read the JSON form.

        Raises:
            RunFolderError: it is no record of an experiment; the message names `where`.
        """
        try:
            parts = {name: from_record(kind, record.get(name, {})) for name, (kind, _) in SETTINGS.items()}
            return cls(**{**record, **parts})
        except (AttributeError, ValueError, TypeError) as error:
            raise RunFolderError(f"{where} is no record of a run: {type(error).__name__}: {error}") from error

    def scheduled(self, env: Any) -> Experiment:
        """Return the experiment with the updates that its epochs over the tasks of an environment take."""
        if not self.schedule.epochs:
            return self
        return dataclasses.replace(self, schedule=self.schedule.for_tasks(len(tasks_of(env, "epochs"))))

    def build(self, device: torch.device | None = None, make_env: Any = None) -> tuple[Any, LanguageModelTeam, Learner]:
        """Return the factory of environments, the team and the learner.

        What can be refused without loading a model is refused first.

        Args:
            device: of the models.
            make_env: the factory, where it is made already.

        Raises:
            SettingsError, SamplerError: what can not be trained, or not be played, like this.
        """
        make_env = make_env or factory(self.env, self.keywords)
        env = make_env()
        refuse_unsuitable(env)
        updates = self.scheduled(env).schedule.updates
        settings = settings_for(
            self.algorithm,
            self.learner,
            len(env.possible_agents),
            group_size=self.schedule.group_size,
            updates=updates,
            shared=self.sharing == "shared",
        )
        if self.law.greedy:
            raise SettingsError("temperature = 0, wanted > 0: a greedy policy explores nothing and can not be trained")
        models = {self.models.get(agent, self.models.get("*", "")) for agent in env.possible_agents}
        check_play(self.sampler, models, self.law)
        check_first_prompts(env, self.models, self.law, self.context)
        team = build_team(
            env.possible_agents,
            self.models,
            lora=self.lora,
            law=self.law,
            sharing=self.sharing,
            seed=self.schedule.seed,
            device=device,
            context=self.context,
        )
        learner = Learner(team, settings, seed=self.schedule.seed, total_updates=updates)
        return make_env, team, learner


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return dict(value) if isinstance(value, Mapping) else value


def read_models(given: list[str]) -> dict[str, str]:
    """Read `--model NAME` or repeated `--model AGENT=NAME` into agent -> model name.

    Raises:
        ValueError: two models for one agent.
    """
    models: dict[str, str] = {}
    for item in given:
        agent, sign, name = item.partition("=")
        key, value = (agent, name) if sign else ("*", item)
        if key in models:
            raise ValueError(f"--model names {'the team' if key == '*' else key} twice: {models[key]} and {value}")
        models[key] = model_folder_or_name(value)
    return models
