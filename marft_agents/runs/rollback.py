"""Alarms, divergence records and rollback to the last good checkpoint of a run.

A rollback undoes only what was learned. The update count goes on, and with it the sequence of prompt groups. The next
checkpoint holds the restored state and the guard's record, so a run resumed from it needs nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from marft_agents.learning.batch import Batch
from marft_agents.learning.divergence_error import DivergenceError
from marft_agents.learning.learner import Learner
from marft_agents.monitoring.action_statistics import behaviour
from marft_agents.monitoring.alarm_rules import HealthSettings
from marft_agents.monitoring.alarms import Alarm, Health
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.runs import checkpoint
from marft_agents.runs.run_folder import RunFolder, checkpoints_in, json_number, write_json
from marft_agents.setting_fields import SettingsError
from marft_agents.trajectory import SampledTurn, Trajectory

UNDONE = ("explosion", "collapse")  # kinds of alarms that cause a rollback


class Guard:
    """Runs the learner's updates for the trainer, raises alarms and rolls back.

    Args:
        team: Team whose adapters are restored.
        learner: Learner to guard and restore; one that has done updates resumes with its saved guard state.
        settings: Thresholds, and the number of rollbacks allowed; None: the defaults.
        folder: Run folder with the checkpoints; divergence records go there. None keeps nothing.
        on_alarm: Called with each alarm.

    Raises:
        SettingsError: Rollbacks are allowed, but there is no folder with checkpoints to restore.
    """

    def __init__(
        self,
        team: LanguageModelTeam,
        learner: Learner,
        settings: HealthSettings | None = None,
        *,
        folder: RunFolder | None = None,
        on_alarm: Callable[[Alarm], None] | None = None,
    ) -> None:
        self.settings = settings or HealthSettings()
        if self.settings.rollback and folder is None:
            raise SettingsError(f"rollback = {self.settings.rollback} goes back to checkpoints: wanted a run folder")
        self.team, self.learner, self.folder, self.on_alarm = team, learner, folder, on_alarm
        self.health = Health(self.settings)
        self.rollbacks = 0
        self.since = 0  # oldest checkpoint that a rollback may restore
        self._oldest = 0  # oldest checkpoint found on resume: fewer are kept while rollbacks are not allowed
        self.alarms: list[Alarm] = []  # of the newest update
        if folder is not None and learner.updates:
            self._resume(folder)

    def _resume(self, folder: RunFolder) -> None:
        path = folder.checkpoints / checkpoint.name_of(self.learner.updates)
        state = checkpoint.guard_of(path) if path.exists() else {}
        if state:
            self.health.load_state_dict(state["health"])
            self.rollbacks, self.since = state["rollbacks"], state["since"]
            self.learner.step_scale = self._step_scale
        self._oldest = min(checkpoints_in(folder.checkpoints), default=0)

    @property
    def _step_scale(self) -> float:
        return 0.5**self.rollbacks

    @property
    def keep(self) -> int:
        """Number of newest checkpoints that a rollback may need; 0 if none is allowed."""
        return self.settings.alarm_window + 1 if self.settings.rollback else 0

    def update(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """Run the learner's update; return its metrics, empty if a divergence was rolled back.

        Raises:
            DivergenceError: A number is not finite and no rollback is left; names the file with the actions it came
                from, if there is a run folder.
        """
        self.alarms = []
        if self.settings.rollback and self.folder is not None and self.learner.updates == 0:
            checkpoint.save(self.folder.checkpoints, self.team, self.learner, notes=self.folder.notes)
        update = self.learner.updates
        try:
            return self.learner.update(trajectories)
        except DivergenceError as error:
            told = self._saved(update, error, trajectories)
            if self.rollbacks == self.settings.rollback:
                raise DivergenceError(told, error.rows) from error
            self._raise(Alarm(update, "team", "divergence", "finite", math.nan, math.inf, told))
            self.learner.updates = update + 1
            self._roll_back(self.alarms[-1])
            return {}

    def judge(self, update: int, metrics: Mapping[str, float], trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """Raise the alarms of an update that the learner has done, and roll back if they require it.

        Args:
            update: Index of the update, from 0.
            metrics: Metrics of the update by name.
            trajectories: Episodes of the update whose actions are reported.

        Returns:
            The metrics, statistics of the actions (see `behaviour`) and a flag per agent and kind of alarm.
        """
        told = behaviour(trajectories) | dict(metrics)
        if self.alarms:  # the update diverged and was rolled back
            return told | self.health.flags(update) | {"team/rollbacks": float(self.rollbacks)}
        for alarm in self.health.observe(update, told):
            self._raise(alarm)
        told |= self.health.flags(update)
        cause = next((alarm for alarm in self.alarms if alarm.kind in UNDONE), None)
        if cause is not None and self.rollbacks < self.settings.rollback:
            self._roll_back(cause)
        if self.settings.rollback:
            told["team/rollbacks"] = float(self.rollbacks)
        return told

    def _raise(self, alarm: Alarm) -> None:
        self.alarms.append(alarm)
        if self.on_alarm is not None:
            self.on_alarm(alarm)

    def _roll_back(self, cause: Alarm) -> None:
        """Restore adapters, optimizers and critic from before the alarm's cause; halve the policies' step size."""
        path = self._good(cause)
        updates = self.learner.updates
        checkpoint.load(path, self.team, self.learner)
        self.learner.updates = updates
        self.health = Health(self.settings)
        state = checkpoint.guard_of(path)
        if state:
            self.health.load_state_dict(state["health"])
        self.rollbacks, self.since = self.rollbacks + 1, updates
        self.learner.step_scale = self._step_scale
        done, allowed = int(path.name.removeprefix("update-")), self.settings.rollback
        trouble = "a divergence" if cause.kind == "divergence" else cause.measure
        sentence = (
            f"back to what was learned in {done} updates, with policy_lr times {self.learner.step_scale:g} "
            f"(rollback {self.rollbacks} of {allowed}, for {trouble})"
        )
        self._raise(Alarm(cause.update, cause.agent, "rollback", cause.measure, done, allowed, sentence))

    def _good(self, cause: Alarm) -> Path:
        """Return the newest checkpoint from before the alarm's cause.

        An update plays with the weights that the update before it learned, so an explosion goes back by two updates. A
        collapse is detected in the median of a window, so it goes back to before that window.
        """
        assert self.folder is not None
        back = self.settings.alarm_window if cause.kind == "collapse" else 1
        wanted = max(cause.update - back, self.since, self._oldest)
        fitting = [number for number in checkpoints_in(self.folder.checkpoints) if self.since <= number <= wanted]
        if not fitting:
            raise checkpoint.CheckpointError(
                f"rollback at update {cause.update + 1}: {self.folder.checkpoints} holds none of "
                f"update-{self.since:05d} to update-{wanted:05d}: wanted the checkpoints before the trouble"
            )
        return self.folder.checkpoints / checkpoint.name_of(max(fitting))

    def _saved(self, update: int, error: DivergenceError, trajectories: Sequence[Trajectory]) -> str:
        """Write the actions that a divergence came from; return a message with the error and the file.

        All actions of the update are written if the error does not name any.
        """
        told = f"update {update + 1}: {error}"
        if self.folder is None:
            return told
        file = self.folder.path / f"divergence-{update + 1}.json"
        if error.rows is not None:
            rows = [error.rows.take(np.array([i])) for i in range(len(error.rows.actions))]
            actions = [self._computed(row, trajectories) for row in rows]
        else:
            turns = [(e, turn) for e, t in enumerate(trajectories) for turn in t.turns if len(turn.action.token_ids)]
            actions = [self._record(episode, turn) for episode, turn in turns]
        write_json(file, {"update": update, "error": str(error), "actions": actions})
        return f"{told}; the {len(actions)} actions it came from are in {file}"

    def _computed(self, row: Batch, trajectories: Sequence[Trajectory]) -> dict[str, Any]:
        """Return the record of an action with the numbers that the learner has computed for it."""
        episode = int(row.episode[0])
        numbers = {name: _numbers(getattr(row, name)) for name in ("advantages", "returns", "values")}
        return self._record(episode, trajectories[episode].turns[row.turn[0]]) | numbers

    def _record(self, episode: int, turn: SampledTurn) -> dict[str, Any]:
        action = turn.action
        return {
            "agent": turn.agent,
            "episode": episode,
            "round": turn.round,
            "reward": json_number(turn.reward),
            "prompt": self.team.local_agent(turn.agent).base.tokenizer.decode(action.prompt_ids),
            "text": action.text,
            "logprobs": _numbers(action.logprobs),
            "token_ids": action.token_ids.tolist(),
            "prompt_ids": action.prompt_ids.tolist(),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a resume, as a JSON-serialisable dictionary."""
        return {"health": self.health.state_dict(), "rollbacks": self.rollbacks, "since": self.since}


def _numbers(values: Any) -> list[float | str]:
    return [json_number(value) for value in values.tolist()]
