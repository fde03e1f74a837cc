"""Training loop of supervised fine-tuning: batches, measurement on held-out turns, logging and checkpoints.

The batches of an update are a function of the seed and the update's number. So k updates, a kill and a resume equal an
uninterrupted run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from marft_agents.learning.settings import DEFAULTS, LearnerSettings, most_sequences, recomputed_share
from marft_agents.learning.supervised import SupervisedLearner
from marft_agents.metric_names import metric_prefix
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.runs import checkpoint
from marft_agents.runs.run_folder import RunFolder
from marft_agents.setting_fields import check_knobs, knob
from marft_agents.trajectory import Action

Demonstrations = Mapping[str, Sequence[Sequence[Action]]]  # policy -> episodes -> actions of its agents


def _positive(value: float) -> bool:
    return value > 0


@dataclass(frozen=True)
class SupervisedSettings:
    """Length and optimizer of supervised fine-tuning."""

    epochs: int = knob(3, "passes over the turns of each agent", _positive, ">= 1")
    batch_size: int = knob(16, "turns of an agent per optimizer step", _positive, ">= 1")
    policy_lr: float = knob(1e-3, "learning rate (Adam) of the LoRA adapters", _positive, "> 0")
    lr_schedule: Literal["constant", "cosine"] = knob(
        "cosine", "schedule of the step size: constant, or cosine decay to zero over the run"
    )
    adam_epsilon: float = knob(DEFAULTS["adam_epsilon"], "epsilon of Adam", _positive, "> 0")
    max_grad_norm: float = knob(1.0, "gradient clipping: largest norm of a gradient", _positive, "> 0")
    micro_batch: int | None = most_sequences("turns")
    gradient_checkpointing: bool | float | None = recomputed_share()
    seed: int = knob(0, "seed of the adapters' initial weights and of the batches", lambda v: v >= 0, ">= 0")

    def __post_init__(self) -> None:
        check_knobs(self)

    @property
    def learner(self) -> LearnerSettings:
        """Settings of the learner that holds adapters and optimizers; it has no critic."""
        return LearnerSettings(
            baseline="none",
            centring="none",
            scaling="none",
            policy_lr=self.policy_lr,
            lr_schedule=self.lr_schedule,
            adam_epsilon=self.adam_epsilon,
            max_grad_norm=self.max_grad_norm,
            micro_batch=self.micro_batch,
            gradient_checkpointing=self.gradient_checkpointing,
        )

    def steps_per_epoch(self, train: Demonstrations) -> int:
        """Return the optimizer steps of an epoch: those of the policy with the most turns."""
        return max(-(-len(_flat(own)) // self.batch_size) for own in train.values())


def _flat(episodes: Sequence[Sequence[Action]]) -> list[Action]:
    return [action for own in episodes for action in own]


class SupervisedTrainer:
    """Fits the policies of a team to demonstrations.

    Every epoch shuffles the episodes of each policy and cuts their turns into one part per step. Turns of one episode
    stay together: they share most of their prompts, and a forward pass computes shared prefixes once. A policy with
    fewer turns than others has smaller parts, so every turn is used once per epoch.

    Args:
        team: Team whose adapters are trained.
        learner: Learner of the team.
        settings: Length of the run, batch size and seed.
        train: Demonstrations to imitate, by policy.
        held_out: Demonstrations to measure before the first step and after each epoch.
        folder: Run folder for metrics and checkpoints; None keeps nothing.
        on_update: Called with (update, metrics) after each step.
    """

    def __init__(
        self,
        team: LanguageModelTeam,
        learner: SupervisedLearner,
        settings: SupervisedSettings,
        train: Demonstrations,
        held_out: Demonstrations,
        *,
        folder: RunFolder | None = None,
        on_update: Callable[[int, Mapping[str, float]], None] | None = None,
    ) -> None:
        self.team, self.learner, self.settings = team, learner, settings
        self.train, self.held_out, self.folder, self.on_update = train, held_out, folder, on_update
        self.per_epoch = settings.steps_per_epoch(train)

    @property
    def updates(self) -> int:
        """Number of optimizer steps of the whole run."""
        return self.settings.epochs * self.per_epoch

    def run(self) -> None:
        """Run the remaining steps."""
        while self.learner.updates < self.updates:
            self.step()

    def step(self) -> dict[str, float]:
        """Make one optimizer step of every policy; return its metrics."""
        update = self.learner.updates
        before = self._measured("held_out_before_") if update == 0 else {}
        started = time.perf_counter()
        metrics = self.learner.imitate(self.batch(update))
        metrics |= {"seconds/update": time.perf_counter() - started, **before}
        if (update + 1) % self.per_epoch == 0:
            metrics |= self._measured("held_out_")
        if self.folder is not None:
            self.folder.log(update, metrics, ())
            notes, records = self.folder.notes, self.folder.lines
            checkpoint.save(self.folder.checkpoints, self.team, self.learner, notes=notes, records=records)
        if self.on_update is not None:
            self.on_update(update, metrics)
        return metrics

    def batch(self, update: int) -> dict[str, list[Action]]:
        """Return the actions of a step by policy; a function of the seed and the update."""
        epoch, place = divmod(update, self.per_epoch)
        found = {}
        for number, (policy, own) in enumerate(self.train.items()):
            generator = np.random.default_rng(np.random.SeedSequence([self.settings.seed, epoch, number]))
            shuffled = _flat([own[i] for i in generator.permutation(len(own))])
            part = np.array_split(np.arange(len(shuffled)), self.per_epoch)[place]
            found[policy] = [shuffled[i] for i in part]
        return found

    def _measured(self, prefix: str) -> dict[str, float]:
        fits: dict[str, Any] = self.learner.measure({policy: _flat(own) for policy, own in self.held_out.items()})
        return {
            f"{metric_prefix(policy)}/{prefix}{name}": value
            for policy, fit in fits.items()
            for name, value in fit._asdict().items()
        }
