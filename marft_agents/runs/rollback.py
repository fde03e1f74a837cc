"""Keeps a run sound: raises its alarms, saves what diverged, and takes it back to a good checkpoint where allowed.

After a rollback the numbers of updates, and with them the draws of tasks, go on: only what was learned is undone. The
next checkpoint holds what was restored and how it came about, so a run that is resumed from it needs nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from marft_agents.learning.divergence_error import DivergenceError
from marft_agents.learning.learner import Learner
from marft_agents.monitoring.action_statistics import behaviour
from marft_agents.monitoring.alarm_rules import HealthSettings
from marft_agents.monitoring.alarms import Alarm, Health
from marft_agents.policies.language_model import LanguageModelTeam
from marft_agents.runs import checkpoint
from marft_agents.runs.run_folder import RunFolder, json_number, write_json
from marft_agents.setting_fields import SettingsError
from marft_agents.trajectory import Trajectory, Turn

UNDONE = ("explosion", "collapse")  # kinds of alarms that a rollback answers


class Guard:
    """Stands between the trainer and the learner.

    Args:
        team: whose adapters are restored.
        learner: what is restored; a learner that has done updates goes on with the guard saved beside them.
        settings: thresholds, and how many rollbacks are allowed.
        folder: where checkpoints, alarms and what diverged are kept; None keeps nothing.
        on_alarm: called with each alarm.

    Raises:
        SettingsError: rollbacks are allowed, but there is no folder with checkpoints to go back to.
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
        self.since = 0  # no checkpoint before this one is gone back to
        self._oldest = 0  # found when resumed: fewer are kept while rollbacks are not allowed
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
        self._oldest = min(_numbers_of(folder), default=0)

    @property
    def _step_scale(self) -> float:
        return 0.5**self.rollbacks

    @property
    def keep(self) -> int:
        """How many of the newest checkpoints a rollback may need."""
        return self.settings.alarm_window + 1 if self.settings.rollback else 0

    def update(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """Let the learner learn; return its metrics, none where a divergence was rolled back.

        Raises:
            DivergenceError: a number is not finite, and no rollback is left; names the file with the actions it came
                from.
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
                raise DivergenceError(told, error.samples) from error
            self._raise(Alarm(update, "team", "divergence", "finite", math.nan, math.inf, told))
            self.learner.updates = update + 1
            self._roll_back(self.alarms[-1])
            return {}

    def judge(self, update: int, metrics: Mapping[str, float], trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """Raise the alarms of an update that the learner has done, and roll back where they ask for it.

        Args:
            update: its index.
            metrics: what is known of it.
            trajectories: all that was played for it.

        Returns:
            The metrics, what the agents did (see `behaviour`) and a flag per agent and kind of alarm.
        """
        told = behaviour(trajectories) | dict(metrics)
        if self.alarms:  # it diverged and is undone
            return told | self.health.flags(update) | {"team/rollbacks": float(self.rollbacks)}
        for alarm in self.health.observe(update, told):
            self._raise(alarm)
        told |= self.health.flags(update)
        cause = next((alarm for alarm in self.alarms if alarm.kind in UNDONE), None)
        if cause is not None and self.rollbacks < self.settings.rollback:
            self._roll_back(cause)
        return told | ({"team/rollbacks": float(self.rollbacks)} if self.settings.rollback else {})

    def _raise(self, alarm: Alarm) -> None:
        self.alarms.append(alarm)
        if self.on_alarm is not None:
            self.on_alarm(alarm)

    def _roll_back(self, cause: Alarm) -> None:
        """Restore adapters, optimizers and critic from before the trouble; halve the policies' step size."""
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
        """Return the newest checkpoint from before the trouble.

        An update plays with what the update before it learned, so an explosion goes back by two; a collapse is told by
        the median of a window.
        """
        assert self.folder is not None
        back = self.settings.alarm_window if cause.kind == "collapse" else 1
        wanted = max(cause.update - back, self.since, self._oldest)
        fitting = [number for number in _numbers_of(self.folder) if self.since <= number <= wanted]
        if not fitting:
            raise checkpoint.CheckpointError(
                f"rollback at update {cause.update + 1}: {self.folder.checkpoints} holds none of "
                f"update-{self.since:05d} to update-{wanted:05d}: wanted the checkpoints before the trouble"
            )
        return self.folder.checkpoints / checkpoint.name_of(max(fitting))

    def _saved(self, update: int, error: DivergenceError, trajectories: Sequence[Trajectory]) -> str:
        """Write the actions that a divergence came from; return what happened and where they are.

        Where the error does not tell them, all actions of the update are written.
        """
        told = f"update {update + 1}: {error}"
        if self.folder is None:
            return told
        file = self.folder.path / f"divergence-{update + 1}.json"
        turns = [(e, turn) for e, t in enumerate(trajectories) for turn in t.turns if len(turn.action.token_ids)]
        known = {id(turn.action): turn for _, turn in turns}
        actions = [
            self._record(s.episode, known.get(id(s.action), Turn(s.agent, s.action, math.nan, s.round)))
            | {name: _numbers(getattr(s, name)) for name in ("advantages", "returns", "values")}
            for s in error.samples
        ]
        actions = actions or [self._record(episode, turn) for episode, turn in turns]
        write_json(file, {"update": update, "error": str(error), "actions": actions})
        return f"{told}; the {len(actions)} actions it came from are in {file}"

    def _record(self, episode: int, turn: Turn) -> dict[str, Any]:
        action = turn.action
        return {
            "agent": turn.agent,
            "episode": episode,
            "round": turn.round,
            "reward": json_number(turn.reward),
            "prompt": self.team.seat(turn.agent).base.tokenizer.decode(action.prompt_ids),
            "text": action.text,
            "logprobs": _numbers(action.logprobs),
            "token_ids": action.token_ids.tolist(),
            "prompt_ids": action.prompt_ids.tolist(),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run needs, as JSON."""
        return {"health": self.health.state_dict(), "rollbacks": self.rollbacks, "since": self.since}


def _numbers_of(folder: RunFolder) -> list[int]:
    """Return after how many updates each checkpoint was written."""
    return [int(path.name.removeprefix("update-")) for path in folder.checkpoints.glob("update-*")]


def _numbers(values: Any) -> list[float | str]:
    return [json_number(value) for value in values.tolist()]
