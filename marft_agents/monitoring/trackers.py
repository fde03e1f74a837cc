"""Trackers of a run: TensorBoard, trackio and Weights & Biases behind one protocol.

Nothing leaves the machine unless the user's environment asks for it. wandb runs offline unless WANDB_MODE is set;
trackio keeps its records in its local store unless TRACKIO_SPACE_ID or TRACKIO_SERVER_URL is set. metrics.jsonl and
episodes.jsonl of the run folder are complete without any tracker.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import os
import sys
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from marft_agents.monitoring.alarms import Alarm
from marft_agents.setting_fields import SettingsError, check_knobs, knob
from marft_agents.trajectory import Trajectory
from marft_common import atomic_files
from marft_common.installation import pip_install

NAME_FILE = "tracked_run.json"


class TrackerError(RuntimeError):
    """Error for a tracker that cannot be opened; names the tracker and its reason."""


class Tracker(Protocol):
    """Receiver of the metrics of a run."""

    def log(
        self, update: int, metrics: Mapping[str, float], episodes: Sequence[Trajectory], alarms: Sequence[Alarm]
    ) -> None:
        """Record one update.

        Args:
            update: Index of the update, from 0.
            metrics: Metrics of the update by name.
            episodes: Episodes of the update, at most `TrackingSettings.track_episodes`.
            alarms: Alarms of the update.
        """

    def close(self) -> None:
        """Finish the record."""


@dataclass(frozen=True)
class TrackedRun:
    """The run that trackers record.

    Attributes:
        folder: Folder of the run.
        config: Configuration of the run.
        resume_at: Number of updates already done; 0 for a fresh run.
        project: Project of trackio and wandb that the run belongs to.
    """

    folder: Path
    config: Mapping[str, Any]
    resume_at: int
    project: str

    def name(self) -> str:
        """Return the run's unique name; made once per run folder, so that a resume continues the same run."""
        file = self.folder / NAME_FILE
        if file.is_file():
            return str(json.loads(file.read_text(encoding="utf-8"))["name"])
        name = f"{self.folder.resolve().name}-{uuid.uuid4().hex[:8]}"
        with atomic_files.replacing(file) as part:
            part.write_text(json.dumps({"name": name}) + "\n", encoding="utf-8")
        return name


class TensorBoardTracker:
    """Writes TensorBoard events to the run folder."""

    def __init__(self, run: TrackedRun) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._board = SummaryWriter(str(run.folder), purge_step=run.resume_at)

    def log(
        self, update: int, metrics: Mapping[str, float], episodes: Sequence[Trajectory], alarms: Sequence[Alarm]
    ) -> None:
        """Write a scalar per metric and a text per alarm."""
        for name, value in metrics.items():
            self._board.add_scalar(name, value, update)
        for alarm in alarms:
            self._board.add_text(f"{alarm.agent}/alarm_{alarm.kind}", alarm.sentence, update)
        self._board.flush()

    def close(self) -> None:
        """Close the event file."""
        self._board.close()


class TrackioTracker:
    """Logs metrics, and episodes as traces, to trackio."""

    def __init__(self, run: TrackedRun) -> None:
        import trackio

        self._trackio = trackio
        with _output_to_stderr():
            self._run = trackio.init(
                project=run.project, name=run.name(), config=dict(run.config), resume="allow", embed=False
            )

    def log(
        self, update: int, metrics: Mapping[str, float], episodes: Sequence[Trajectory], alarms: Sequence[Alarm]
    ) -> None:
        """Log the finite metrics, a trace per episode and an alert per alarm."""
        found: dict[str, Any] = _finite(metrics)
        if traces := [self._trackio.Trace(**trace(episode)) for episode in episodes]:
            found["episodes"] = traces
        self._run.log(found, step=update)
        with _output_to_stderr():
            for alarm in alarms:
                self._run.alert(title=_title(alarm), text=alarm.sentence, step=update)

    def close(self) -> None:
        """Write what is buffered."""
        with _output_to_stderr():
            self._trackio.finish()  # unlike finish() of the run, it leaves nothing to do at exit


class WandbTracker:
    """Logs metrics to Weights & Biases: offline, into the run folder, unless WANDB_MODE says otherwise."""

    def __init__(self, run: TrackedRun) -> None:
        import wandb

        with _output_to_stderr():
            self._run = wandb.init(
                project=run.project,
                dir=os.environ.get("WANDB_DIR", str(run.folder)),
                id=run.name(),
                name=run.name(),
                config=dict(run.config),
                mode=None if "WANDB_MODE" in os.environ else "offline",
                # An offline run has no server to ask: `wandb sync` puts all parts of one id together.
                resume="allow" if os.environ.get("WANDB_MODE", "offline") != "offline" else None,
                settings=wandb.Settings(console="off", silent=True),
            )
        # A resumed run may repeat its last update, and wandb drops steps that do not grow.
        self._run.define_metric("update")
        self._run.define_metric("*", step_metric="update")

    def log(
        self, update: int, metrics: Mapping[str, float], episodes: Sequence[Trajectory], alarms: Sequence[Alarm]
    ) -> None:
        """Log the metrics over the axis `update`, and an alert per alarm."""
        self._run.log({"update": update, **metrics})
        for alarm in alarms:
            self._run.alert(title=_title(alarm), text=alarm.sentence)

    def close(self) -> None:
        """Finish the run."""
        with _output_to_stderr():
            self._run.finish()


class Known(NamedTuple):
    """A tracker of the table.

    Attributes:
        open: Opens the tracker of a run.
        package: Module that it needs.
        extra: Extra of marft that installs the module.
    """

    open: Callable[[TrackedRun], Tracker]
    package: str
    extra: str


TRACKERS: Mapping[str, Known] = {
    "tensorboard": Known(TensorBoardTracker, "tensorboard", "agents"),
    "trackio": Known(TrackioTracker, "trackio", "trackio"),
    "wandb": Known(WandbTracker, "wandb", "wandb"),
}


@dataclass(frozen=True)
class TrackingSettings:
    """Trackers that get the metrics of a run, beside the files of the run folder."""

    track: tuple[str, ...] = knob(
        ("tensorboard",),
        f"trackers of the run, separated by commas: {', '.join(TRACKERS)}; trackio and wandb stay on this machine "
        "unless your environment says otherwise",
        lambda v: v and len(set(v)) == len(v) and set(v) <= TRACKERS.keys(),
        f"some of {', '.join(TRACKERS)}, each once",
    )
    track_project: str = knob(
        "marft", "project of trackio and wandb that the run belongs to", lambda v: bool(v.strip()), "a name"
    )
    track_episodes: int = knob(4, "episodes of each update that trackio shows as traces", lambda v: v >= 0, ">= 0")

    def __post_init__(self) -> None:
        check_knobs(self)

    def check_installed(self) -> None:
        """Raise SettingsError if the package of a tracker is missing; names the extra that installs it."""
        for name in self.track:
            known = TRACKERS[name]
            if not _is_installed(known.package):
                raise SettingsError(f"--track {name} needs the package {known.package}: {pip_install(known.extra)}")


def _is_installed(package: str) -> bool:
    try:
        spec = importlib.util.find_spec(package)
    except (ModuleNotFoundError, ValueError):
        return False
    return spec is not None and spec.origin is not None  # without an origin: a folder `wandb` that runs have left


class Trackers:
    """All trackers of a run; one that fails is dropped with a warning, and the run continues.

    Args:
        settings: Names of the trackers.
        folder: Folder of the run.
        config: Configuration of the run.
        resume_at: Number of updates already done; 0 for a fresh run.

    Raises:
        TrackerError: A tracker cannot be opened.
    """

    def __init__(
        self, settings: TrackingSettings, folder: Path, config: Mapping[str, Any], *, resume_at: int = 0
    ) -> None:
        self._episodes = settings.track_episodes
        self._open: dict[str, Tracker] = {}
        run = TrackedRun(folder, config, resume_at, settings.track_project)
        for name in settings.track:
            try:
                self._open[name] = TRACKERS[name].open(run)
            except Exception as error:
                raise TrackerError(f"tracker {name} cannot be opened: {type(error).__name__}: {error}") from error

    def log(
        self, update: int, metrics: Mapping[str, float], episodes: Sequence[Trajectory], alarms: Sequence[Alarm]
    ) -> None:
        """Pass one update to every tracker that still works; the arguments are those of `Tracker.log`."""
        for name, tracker in list(self._open.items()):
            with self._dropping(name, f"at update {update + 1}"):
                tracker.log(update, metrics, episodes[: self._episodes], alarms)

    def close(self) -> None:
        """Close every tracker that still works."""
        for name, tracker in list(self._open.items()):
            with self._dropping(name, "while it was closed"):
                tracker.close()

    @contextlib.contextmanager
    def _dropping(self, name: str, when: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            del self._open[name]
            warnings.warn(
                f"tracker {name} failed {when} and gets no more metrics of this run: {type(error).__name__}: {error}; "
                "metrics.jsonl has all of them",
                RuntimeWarning,
                stacklevel=2,
            )


def trace(episode: Trajectory) -> dict[str, Any]:
    """Return an episode as the arguments of `trackio.Trace`: messages, metadata and spans.

    The messages are the first observation and all actions, each under the name of its agent. Spans are the turns with
    what each agent saw, and below each turn its tool calls. Observations and calls are there only where the
    environment records its games.
    """
    game = episode.game or {}
    seen = [turn.get("observation") for turn in game.get("turns", ())]
    seen += [None] * (len(episode.turns) - len(seen))
    messages = [{"role": "user", "content": seen[0]}] if seen and seen[0] is not None else []
    spans: list[dict[str, Any]] = []
    for number, (turn, observation) in enumerate(zip(episode.turns, seen, strict=False)):
        action, own = turn.action, f"turn-{number}"
        messages.append({"role": "assistant", "name": turn.agent, "content": action.text})
        spans.append(
            {
                "id": own,
                "name": turn.agent,
                "kind": "generation",
                "input": observation,
                "output": action.text,
                "status": "success",
                "usage": {"input_tokens": len(action.prompt_ids), "output_tokens": action.num_tokens},
                "metadata": {"round": turn.round, "layer": turn.layer, "reward": turn.reward},
            }
        )
        for place, call in enumerate(_calls(game, turn.round, turn.agent)):
            spans.append(
                {
                    "id": f"{own}-call-{place}",
                    "parent_id": own,
                    "name": str(call.get("name", "")),
                    "kind": "tool",
                    "input": call.get("arguments"),
                    "status": "success" if call.get("status") == "ok" else "error",
                }
            )
    metadata = {
        "task_id": game.get("task_id"),
        "seed": episode.seed,
        "return": episode.team_return,
        **dict(episode.infos),
        "status": "success" if episode.failure is None else "error",
    }
    if episode.failure is not None:
        metadata["failure"] = episode.failure
    return {"messages": messages, "metadata": metadata, "spans": spans}


def _calls(game: Mapping[str, Any], played_round: int, agent: str) -> list[Mapping[str, Any]]:
    """Return the tool calls of an agent in a round."""
    outcome = dict(enumerate(game.get("outcomes", ()))).get(played_round) or {}
    return [event for event in outcome.get("events", ()) if event["kind"] == "call" and event.get("agent") == agent]


def _finite(metrics: Mapping[str, float]) -> dict[str, Any]:
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def _title(alarm: Alarm) -> str:
    return f"{alarm.agent}: {alarm.kind}"[:63]  # wandb's limit


def _output_to_stderr() -> contextlib.redirect_stdout[Any]:
    """Send what a tracker prints to the standard error; the standard output is that of the command."""
    return contextlib.redirect_stdout(sys.stderr)
