"""Training loop: rollout, update, logging and checkpoint, one update after the other.

The data position is the number of updates done. Prompt groups, dynamic sampling and random numbers of an update depend
on (seed, update, round) alone. So k updates, a kill and a resume equal an uninterrupted run. The number of generated
tokens is part of a checkpoint, so a budget of tokens ends a resumed run after the same update.

Validation runs before the first update and after every update where it is due. Its metrics are on the line of that
update; those before the first update are on the first line under `validation_before/`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from marft_agents.learning.learner import Learner
from marft_agents.learning.settings import LearnerSettings
from marft_agents.metric_names import TOKENS_TOTAL
from marft_agents.monitoring.alarm_rules import HealthSettings
from marft_agents.monitoring.alarms import Alarm
from marft_agents.monitoring.cost_ledger import Ledger, ledger_of
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.policies.policy import Policy
from marft_agents.rollouts.prompt_groups import GroupSettings
from marft_agents.rollouts.rollout_source import GroupPlayer, LocalRollouts, RolloutSource
from marft_agents.runs import checkpoint
from marft_agents.runs.rollback import Guard
from marft_agents.runs.run_folder import RunFolder
from marft_agents.runs.schedule import TrainingSchedule
from marft_agents.runs.token_records import TokenRecorder
from marft_agents.runs.validation import AFTER, BEFORE, Validator, better
from marft_agents.setting_fields import SettingsError


def group_settings(
    schedule: TrainingSchedule, settings: LearnerSettings, tasks: Sequence[Mapping[str, Any]] = ()
) -> GroupSettings:
    """Return the prompt groups of each update.

    Args:
        schedule: Length of the run and rollouts per update.
        settings: Settings of the learner: dynamic sampling, branches and what is compared.
        tasks: Reset options of all tasks, for a schedule of epochs.
    """
    return GroupSettings(
        schedule.seed,
        schedule.groups,
        schedule.group_size,
        extra_rounds=settings.dynamic_sampling,
        branches=settings.branches,
        branched_turns=schedule.branched_turns,
        by_turn=settings.compare == "turn" and not settings.branches,
        own_rewards=settings.rewards == "own",
        tasks=tuple(tasks) if schedule.epochs else (),
    )


class Trainer:
    """Trains a team on any AEC environment with text observations and actions.

    Args:
        make_env: Makes an independent AEC environment.
        team: Team whose policies are trained.
        learner: Learner that updates the team.
        schedule: Length of the run and rollouts per update.
        folder: Run folder for records and checkpoints; None keeps nothing.
        policy: Policy that answers the environment; None: the team itself. A `MixedPolicy` of the team and frozen
            agents (scripted, remote) trains the team beside them.
        rollouts: Where episodes come from; None: `policy` plays them in this process, in environments of `make_env`.
        on_update: Called with (update, metrics) after each update.
        health: Thresholds of alarms, and the number of rollbacks allowed; None: the defaults.
        on_alarm: Called with each alarm.
        tasks: Reset options of all tasks, for a schedule of epochs.
        validator: Plays held-out tasks between updates; `checkpoints/best` is then the best validated update.

    Raises:
        SettingsError: The episodes of a prompt group are compared but `group_size` is 1, or there are epochs but no
            tasks.
    """

    def __init__(
        self,
        make_env: Callable[[], Any],
        team: LanguageModelTeam,
        learner: Learner,
        schedule: TrainingSchedule,
        *,
        folder: RunFolder | None = None,
        policy: Policy | None = None,
        rollouts: RolloutSource | None = None,
        on_update: Callable[[int, Mapping[str, float]], None] | None = None,
        health: HealthSettings | None = None,
        on_alarm: Callable[[Alarm], None] | None = None,
        tasks: Sequence[Mapping[str, Any]] = (),
        validator: Validator | None = None,
    ) -> None:
        settings = learner.settings
        if schedule.group_size == 1 and settings.compares_draws:
            raise SettingsError(
                "episodes of one task draw are compared with each other: wanted group_size >= 2, found 1"
            )
        if schedule.epochs and not tasks:
            raise SettingsError(f"epochs = {schedule.epochs} goes through a list of tasks, and none is given")
        self.make_env = make_env
        self.team = team
        self.learner = learner
        self.schedule = schedule.for_tasks(len(tasks))
        self.folder = folder
        self.on_update = on_update
        self.validator = validator
        self.best = None if folder is None else checkpoint.resume_best(folder.checkpoints, learner.updates)
        self.tokens = self._tokens_so_far()
        self.guard = Guard(team, learner, health, folder=folder, on_alarm=on_alarm)
        self.recorder = TokenRecorder(team) if schedule.record_tokens else None
        if self.recorder is not None:
            learner.on_advantages = self.recorder.take
        self.rollouts: RolloutSource = rollouts or LocalRollouts(
            GroupPlayer(
                make_env,
                team,
                policy or team,
                group_settings(schedule, settings, tasks),
                num_envs=schedule.num_envs,
                max_turns=schedule.max_turns,
            )
        )
        if learner.updates and folder is not None:
            path = folder.checkpoints / checkpoint.name_of(learner.updates)
            self.rollouts.load_state_dict(checkpoint.rollouts_of(path) if path.exists() else {})

    def _tokens_so_far(self) -> int | None:
        """Return the number of tokens generated before a resume; None if the checkpoint does not tell."""
        updates, tokens = self.learner.updates, 0 if self.learner.updates == 0 else None
        if updates and self.folder is not None:
            path = self.folder.checkpoints / checkpoint.name_of(updates)
            tokens = checkpoint.tokens_of(path) if path.exists() else None
        if tokens is None and self.schedule.budget_tokens:
            raise SettingsError(
                f"budget_tokens = {self.schedule.budget_tokens}: found no count of the tokens of the {updates} updates "
                "done; wanted a run folder whose checkpoints hold it, or a new run"
            )
        return tokens

    @property
    def over(self) -> bool:
        """True once the updates are done or the budget of tokens is spent."""
        return self.schedule.progress(self.learner.updates, self.tokens) >= 1

    def run(self) -> None:
        """Run the remaining updates."""
        while not self.over:
            self.step()

    def step(self) -> dict[str, float]:
        """Run one update: rollout, learning, logging, checkpoint; return its metrics."""
        update = self.learner.updates
        before = self._validate(BEFORE) if update == 0 else {}
        if self.best is not None and update == 0:  # the untrained team may remain the best
            self._save()
        started = time.perf_counter()
        experience, seconds_generation, further = self.rollouts.rollout(update)
        played = time.perf_counter()
        if self.schedule.budget_tokens:
            self.learner.progress = self.schedule.progress(update, self.tokens)
        trained = experience.trained
        if self.recorder is not None:
            self.recorder.begin(trained)
        metrics = experience.metrics() | further | self.guard.update(trained)
        metrics = self.guard.judge(update, metrics, experience.reported)
        metrics["seconds/rollout"] = played - started
        ledger = ledger_of(
            experience.played,
            self.team.caches,
            seconds_generation=seconds_generation,
            seconds_update=time.perf_counter() - played,
        )
        metrics |= ledger.metrics() | self._count(ledger)
        metrics |= before | self._validate(AFTER)
        if self.folder is not None:
            self.folder.log(update, metrics, experience.played, self.guard.alarms, tokens=self.recorder)
        self._save()
        if self.on_update is not None:
            self.on_update(update, metrics)
        return metrics

    def _count(self, ledger: Ledger) -> dict[str, float]:
        """Add an update's generated tokens to those of the run; return the metric, empty if they are not counted."""
        if self.tokens is None:
            return {}
        self.tokens += ledger.team.output_tokens or 0
        return {TOKENS_TOTAL: float(self.tokens)}

    def _validate(self, prefix: str) -> dict[str, float]:
        """Validate if it is due; return the metrics and update `best`."""
        done = self.learner.updates
        if self.validator is None or not self.validator.due(done, last=self.over):
            return {}
        metrics = self.validator.metrics(prefix)
        self.best = better(self.best, done, metrics, prefix)
        return metrics

    def _save(self) -> None:
        if self.folder is not None:
            checkpoint.save(
                self.folder.checkpoints,
                self.team,
                self.learner,
                keep=max(self.schedule.keep, self.guard.keep),
                keep_every=self.schedule.keep_every,
                notes=self.folder.notes,
                guard=self.guard.state_dict(),
                best=self.best,
                tokens_total=self.tokens,
                rollouts=self.rollouts.state_dict(),
                records=self.folder.lines,
            )
