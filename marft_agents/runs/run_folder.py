"""Run folder: configuration, versions, metrics, episodes, alarms, checkpoints; metrics go to trackers too."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import platform
import warnings
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from marft_agents.monitoring.alarms import Alarm
from marft_agents.monitoring.trackers import Trackers, TrackingSettings
from marft_agents.runs.folder_lock import RunFolderError, owned
from marft_agents.trajectory import SampledTurn, Trajectory
from marft_common import atomic_files, written_files

if TYPE_CHECKING:  # it imports torch, which readers of run folders do not need
    from marft_agents.runs.token_records import TokenRecorder

PACKAGES = ("marft", "torch", "transformers", "peft", "pettingzoo", "gymnasium", "numpy", "math-verify")
EVALUATION_FILE = "evaluation.json"


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """Replace a text file atomically: write beside `path`, sync and rename; the umask sets its mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_files.replacing(path) as part, part.open("w", encoding="utf-8") as stream:
        yield stream
        stream.flush()
        os.fsync(stream.fileno())


def write_json(path: Path, content: Any, *, own: bool = False) -> None:
    """Write JSON to `path` atomically, see `replacing`.

    Args:
        path: Path of the file.
        content: Value that JSON can hold.
        own: True enters the file into the ledger of what this user wrote here, see `written_files`: later commands act
            on what it names without a question.
    """
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    if own:
        written_files.enter(path, text.encode())
    with replacing(path) as stream:
        stream.write(text)


def check_free(path: Path) -> None:
    """Check that a fresh run or an evaluation can use a folder; nothing is left on disk.

    Raises:
        RunFolderError: The folder holds a run of at least one whole update, or an evaluation; another process writes
            there; or it cannot be made or written.
    """
    with owned(path):
        if _holds_updates(path):
            raise RunFolderError(f"{path} already holds a run; give another --out, or --resume to go on with this one")
        if (path / EVALUATION_FILE).exists():
            raise RunFolderError(f"{path} already holds an evaluation; give another --out, or remove it first")


def _holds_updates(path: Path) -> bool:
    """Return True if a folder holds a run with updates; False for a run killed before its first checkpoint."""
    metrics = path / "metrics.jsonl"
    if not metrics.exists():
        return False
    lines = metrics.read_text(encoding="utf-8").count("\n")
    return lines > 1 or any(checkpoints_in(path / "checkpoints"))


def checkpoints_in(folder: Path) -> dict[int, Path]:
    """Return the checkpoints `update-N` of a folder by N, in order; copies of other names are left out."""
    found = {}
    for path in folder.glob("update-*"):
        number = path.name.removeprefix("update-")
        if number.isdecimal():
            found[int(number)] = path
    return dict(sorted(found.items()))


def json_number(value: float) -> float | str:
    """Return a number for JSON; NaN and infinities become the strings "nan", "inf" and "-inf"."""
    return value if math.isfinite(value) else str(value)


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that can change a result."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def episode_record(
    update: int, trajectory: Trajectory, *, whole: bool = False, tokens: TokenRecorder | None = None
) -> dict[str, Any]:
    """Return a trajectory as a JSON-serialisable record of its turns and outcomes.

    Args:
        update: Index of the update, from 0.
        trajectory: Episode to record.
        whole: True to store the environment's whole record as "game"; False to leave out the observations, which a
            replay rebuilds.
        tokens: Recorder that adds "sampled" to each turn, see `TokenRecorder.record`; None adds nothing.
    """
    game = trajectory.game
    sampled = [None] * len(trajectory.turns) if tokens is None else tokens.record(trajectory)
    if game is not None and not whole and game.get("kind") != "program":  # no replay rebuilds a program
        kept = ("agent", "round", "visible", "shortened", "fault")
        turns = [{key: turn[key] for key in kept if key in turn} for turn in game["turns"]]
        game = {key: game[key] for key in ("task_id", "outcomes", "terms")} | {"turns": turns}
    return {
        "update": update,
        "group": trajectory.group,
        "branch": trajectory.branch,
        "seed": trajectory.seed,
        "return": trajectory.team_return,
        "terminated": trajectory.terminated,
        "truncated": trajectory.truncated,
        "infos": dict(trajectory.infos),
        "failure": trajectory.failure,
        "game": game,
        "turns": [_turn_record(turn, tokens) for turn, tokens in zip(trajectory.turns, sampled, strict=True)],
    }


def _turn_record(turn: SampledTurn, sampled: Mapping[str, Any] | None) -> dict[str, Any]:
    record = {
        "agent": turn.agent,
        "round": turn.round,
        "text": turn.action.text,
        "reward": turn.reward,
        "prompt_tokens": len(turn.action.prompt_ids),
        "tokens": len(turn.action.token_ids),
        "stopped": turn.action.stopped,
        "logprob": float(turn.action.logprobs.sum()),
    }
    if turn.rewards is not None:
        record["rewards"] = dict(turn.rewards)
    if turn.action.shortened:
        record["shortened"] = [note._asdict() for note in turn.action.shortened]
    if sampled is not None:
        record["sampled"] = dict(sampled)
    return record


def alarm_record(alarm: Alarm) -> dict[str, Any]:
    """Return an alarm as a JSON-serialisable dictionary."""
    numbers = {"value": json_number(alarm.value), "threshold": json_number(alarm.threshold)}
    return dataclasses.asdict(alarm) | numbers


class RunFolder:
    """Writes the records of a run, update by update; owns its folder until it is closed, see `owned`.

    Args:
        path: Path of the folder; made if missing.
        config: Configuration written to config.json on a fresh start, as this user's own.
        resume_at: Number of updates already done; later lines of the records are dropped. 0 for a fresh run.
        recorded: Lines that the records had after these updates, see `lines`. What is missing of them is a warning.
        notes: Further facts that can change a result (the hash of the tool surface, ...); kept with the versions and
            in every checkpoint.
        tracking: Trackers that get the metrics too; None: TensorBoard.

    Attributes:
        lines: Number of lines of each record, by the name of its file; for the checkpoint.

    Raises:
        RunFolderError: The run is fresh and the folder is not free, see `check_free`; or another process writes there.
        TrackerError: A tracker cannot be opened.
    """

    def __init__(
        self,
        path: Path,
        config: Mapping[str, Any],
        *,
        resume_at: int = 0,
        recorded: Mapping[str, int] | None = None,
        notes: Mapping[str, str] | None = None,
        tracking: TrackingSettings | None = None,
    ) -> None:
        self.path = path
        self.notes = dict(notes or {})
        self.checkpoints = path / "checkpoints"
        self._metrics, self._episodes = path / "metrics.jsonl", path / "episodes.jsonl"
        self._alarms = path / "alarms.jsonl"
        ownership = contextlib.ExitStack()
        self._give_up = weakref.finalize(self, ownership.close)
        ownership.enter_context(owned(path))
        if not resume_at:
            check_free(path)
        files = (self._metrics, self._episodes, self._alarms)
        missing = {file.name for file in files if not file.exists()}
        self.lines = {file.name: _keep_before(file, resume_at) for file in files}
        if resume_at:
            self._compare(missing, {self._metrics.name: resume_at, **(recorded or {})})
        if not resume_at:
            write_json(path / "config.json", dict(config), own=True)
        write_json(path / "versions.json", versions() | self.notes)
        self._trackers = Trackers(tracking or TrackingSettings(), path, config, resume_at=resume_at)

    def _compare(self, missing: Collection[str], wanted: Mapping[str, int]) -> None:
        """Warn of records that a resume has not found, or not whole."""
        told = []
        for name, found in self.lines.items():
            if found == wanted.get(name):
                continue
            count = f"found {found} lines of these updates, wanted {wanted[name]}" if name in wanted else ""
            if name in missing:
                told.append(f"{name} is missing" + (f" ({count})" if count else ""))
            elif count:
                told.append(f"{name} was cut or changed ({count})")
        if told:
            warnings.warn(
                f"{self.path}: {'; '.join(told)}: the run goes on without these records; to have them, end it, restore "
                "the file from a copy, and resume",
                stacklevel=3,  # the caller of `RunFolder`
            )

    def log(
        self,
        update: int,
        metrics: Mapping[str, float],
        trajectories: Sequence[Trajectory],
        alarms: Sequence[Alarm] = (),
        *,
        tokens: TokenRecorder | None = None,
    ) -> None:
        """Append one update's metrics, episodes and alarms; call this before the update's checkpoint is written.

        Args:
            update: Index of the update, from 0.
            metrics: Metrics of the update by name.
            trajectories: Episodes of the update.
            alarms: Alarms of the update.
            tokens: Recorder of the sampled tokens; with it the records of episodes are whole. None: neither.

        Raises:
            RunFolderError: The disk refused; a resume drops the lines already written for this update.
        """
        try:
            whole = tokens is not None
            episodes = (episode_record(update, t, whole=whole, tokens=tokens) for t in trajectories)
            self._append(self._episodes, episodes)
            self._append(self._alarms, map(alarm_record, alarms))
            self._append(self._metrics, [{"update": update, **metrics}])
        except OSError as error:
            raise RunFolderError(
                f"{self.path} could not be written at update {update + 1}: {error}; free some space and resume"
            ) from error
        self._trackers.log(update, metrics, trajectories, alarms)

    def _append(self, file: Path, records: Iterable[Mapping[str, Any]]) -> None:
        lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
        with file.open("a", encoding="utf-8") as stream:
            stream.writelines(lines)
            stream.flush()
            os.fsync(stream.fileno())
        self.lines[file.name] += len(lines)

    def close(self) -> None:
        """Close the trackers, and give up the folder."""
        self._trackers.close()
        self._give_up()


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Read the metrics of a run folder, update by update.

    Raises:
        RunFolderError: The folder holds no metrics.
    """
    file = path / "metrics.jsonl"
    if not file.is_file():
        raise RunFolderError(f"{path} holds no run: {file.name} is missing")
    with file.open(encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def _keep_before(path: Path, update: int) -> int:
    """Drop the lines from `update` on, which will be repeated, and a last line that a kill truncated; count the others.

    Raises:
        RunFolderError: Another line is no record of an update; the file is left as it is.
    """
    kept = []
    # not splitlines(): texts of agents may hold other line separators
    *lines, _truncated = path.read_bytes().split(b"\n") if update and path.exists() else [b""]
    for number, line in enumerate(lines, 1):
        try:
            if json.loads(line)["update"] < update:
                kept.append(line + b"\n")
        except (ValueError, KeyError, TypeError) as error:
            raise RunFolderError(
                f"{path}, line {number}: wanted the record of an update, found {line[:80]!r}: restore the file from a "
                "copy, or delete the line to go on without it"
            ) from error
    with replacing(path) as stream:
        stream.writelines(line.decode() for line in kept)
    return len(kept)
