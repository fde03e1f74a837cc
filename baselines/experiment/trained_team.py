"""Load a team of language models for evaluation: models, sampling parameters, context window and checkpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baselines.experiment.config_trust import EVERYTHING, Uses
from baselines.experiment.experiment import Experiment
from marft_agents.generation.engine_settings import EngineSettings
from marft_agents.generation.sampling import SamplingParams
from marft_agents.models.base_settings import Dtype, LoraSettings, Sharing
from marft_agents.models.context_window import ContextSettings
from marft_agents.policies.partners import RemoteSettings

if TYPE_CHECKING:  # they import torch, which settings do not need
    from marft_agents.policies.language_model import LanguageModelTeam
    from marft_agents.policies.team_building import Devices


@dataclass(frozen=True)
class TeamSettings:
    """Settings with which a team is loaded for evaluation.

    Attributes:
        models: Model name by agent (see `policies.partners`); the key "*" stands for all other agents.
        sampling: Sampling parameters of all agents.
        context: Context window in tokens, and the treatment of longer prompts.
        lora: Settings of the LoRA adapters.
        sharing: "separate" for one adapter per agent, "shared" for one for all.
        checkpoint: Checkpoint or run whose adapters are loaded; None is the untrained team.
        remote: Limits of requests to remote agents.
        dtype: Dtype of the frozen bases, see `build_team`.
        engine: Engine of generation and its sizes.
    """

    models: Mapping[str, str]
    sampling: SamplingParams
    context: ContextSettings
    lora: LoraSettings = LoraSettings()
    sharing: Sharing = "separate"
    checkpoint: Path | None = None
    remote: RemoteSettings = RemoteSettings()
    dtype: Dtype = "auto"
    engine: EngineSettings = EngineSettings()

    @classmethod
    def of_run(cls, experiment: Experiment, path: Path) -> TeamSettings:
        """Return the settings of a trained team as it was trained.

        Args:
            experiment: Experiment of the run.
            path: Checkpoint whose adapters are loaded.
        """
        # Prompts that are too long are shortened: a single one must not end a program that plays many.
        context = dataclasses.replace(experiment.context, overflow="shorten")
        return cls(
            models=dict(experiment.models),
            sampling=experiment.sampling,
            context=context,
            lora=experiment.lora,
            sharing=experiment.sharing,
            dtype=experiment.dtype,
            checkpoint=path,
            remote=experiment.remote,
        )

    def check(self, env: Any) -> None:
        """Refuse an environment that the team cannot play, before any model is loaded.

        Args:
            env: An AEC environment; it is reset.

        Raises:
            CheckpointError: The checkpoint is of another team.
            ContextOverflowError, ModelError, RemoteError, SettingsError: See `check_first_prompts`.
        """
        from marft_agents.policies.team_building import check_first_prompts
        from marft_agents.runs import checkpoint

        if self.checkpoint is not None:
            checkpoint.check_agents(self.checkpoint, env.possible_agents)
        check_first_prompts(env, self.models, self.sampling, self.context)

    def load(self, agents: Sequence[str], device: Devices = None) -> LanguageModelTeam:
        """Load the models and the adapters.

        Args:
            agents: Ids of the agents, as in the checkpoint.
            device: Device of the models, see `build_team`.
        """
        from marft_agents.policies.team_building import build_team
        from marft_agents.runs import checkpoint

        team = build_team(
            agents,
            self.models,
            lora=self.lora,
            sampling=self.sampling,
            sharing=self.sharing,
            dtype=self.dtype,
            device=device,
            context=self.context,
            remote=self.remote,
            engine=self.engine,
        )
        if self.checkpoint is not None:
            checkpoint.load_adapters(self.checkpoint, team)
        return team


PLAYERS = Uses(only=("models",))
"""The settings of a trained team that plays an environment of the user's choice."""


def experiment_of(path: Path, uses: Uses = EVERYTHING, *, trust: bool | None = False) -> Experiment:
    """Return the experiment of a checkpoint, read from the config.json of its run folder.

    Args:
        path: Checkpoint or run, see `checkpoint.resolve`.
        uses: The settings on which the caller acts.
        trust: True to act on the record of somebody else.

    Raises:
        CheckpointError: There is no such checkpoint, or it lies in no run folder.
        RunFolderError, UntrustedConfigError: See `Experiment.load`.
    """
    from marft_agents.runs import checkpoint

    return Experiment.load(run_of(checkpoint.resolve(path)), uses, trust=trust)


def run_of(path: Path) -> Path:
    """Return the run folder of a checkpoint.

    Raises:
        CheckpointError: The checkpoint lies in no run folder.
    """
    # The run itself, RUN/checkpoints, or RUN/checkpoints/update-N.
    for folder in (path, path.parent, path.parent.parent):
        if (folder / "config.json").is_file():
            return folder
    from marft_agents.runs.checkpoint import CheckpointError

    raise CheckpointError(f"{path} lies in no run folder: wanted RUN or RUN/checkpoints/update-N with RUN/config.json")
