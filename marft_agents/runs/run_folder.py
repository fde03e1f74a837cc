"""The folder of a run: configuration, versions, metrics, episodes, alarms, checkpoints and TensorBoard events."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import platform
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

from marft_agents.monitoring.alarms import Alarm
from marft_agents.trajectory import Trajectory, Turn

PACKAGES = ("marft", "torch", "transformers", "peft", "pettingzoo", "gymnasium", "numpy", "math-verify")


class RunFolderError(RuntimeError):
    """A run folder that can not be used or written; says what to do."""


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """Open a text file beside `path` that takes its place once it is whole; its mode is what the umask gives."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("w", encoding="utf-8") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        part.rename(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_json(path: Path, content: Any) -> None:
    """Write JSON to a temporary name and rename it into place."""
    with replacing(path) as stream:
        json.dump(content, stream, indent=1, ensure_ascii=False)
        stream.write("\n")


def check_free(path: Path) -> None:
    """Refuse a folder that a fresh run can not have; leaves nothing behind.

    Raises:
        RunFolderError: it holds a run of at least one whole update, or it can not be made or written.
    """
    missing = [folder for folder in (path, *path.parents) if not os.path.lexists(folder)]
    try:
        if _holds_updates(path):
            raise RunFolderError(f"{path} already holds a run; give another --out, or --resume to go on with this one")
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        found = "it is a file" if path.is_file() else f"it can not be made or written ({error.strerror})"
        raise RunFolderError(f"{path} can not be the folder of a run: {found}; give another --out") from error
    finally:
        for folder in missing:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _holds_updates(path: Path) -> bool:
    """Return False for a new folder, and for a run that was killed before its first checkpoint."""
    metrics = path / "metrics.jsonl"
    if not metrics.exists():
        return False
    lines = metrics.read_text(encoding="utf-8").count("\n")
    return lines > 1 or any(int(p.name.removeprefix("update-")) for p in (path / "checkpoints").glob("update-*"))


def json_number(value: float) -> float | str:
    """Return a number as JSON knows it; "nan", "inf" and "-inf" in words."""
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


def episode_record(update: int, trajectory: Trajectory, *, whole: bool = False) -> dict[str, Any]:
    """Return a trajectory as JSON: what was said, and what came of it.

    Args:
        update: index of the update.
        trajectory: the episode.
        whole: "game" is the environment's whole record, which can be replayed; otherwise without what was seen, which
            a replay makes again.
    """
    game = trajectory.game
    if game is not None and not whole:
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
        "turns": [_turn_record(turn) for turn in trajectory.turns],
    }


def _turn_record(turn: Turn) -> dict[str, Any]:
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
    if turn.action.shortened:
        record["shortened"] = [note._asdict() for note in turn.action.shortened]
    return record


def alarm_record(alarm: Alarm) -> dict[str, Any]:
    """Return an alarm as JSON."""
    numbers = {"value": json_number(alarm.value), "threshold": json_number(alarm.threshold)}
    return dataclasses.asdict(alarm) | numbers


class RunFolder:
    """Writes a run's records as they come.

    Args:
        path: the folder; made if missing.
        config: written to config.json on a fresh start.
        resume_at: number of updates already done; later lines of the records are dropped. 0 for a fresh run.
        notes: what else can change a result (the hash of the tool surface, ...); kept with the versions and in every
            checkpoint.

    Raises:
        RunFolderError: a fresh run, and the folder is not free; see `check_free`.
    """

    def __init__(
        self, path: Path, config: Mapping[str, Any], *, resume_at: int = 0, notes: Mapping[str, str] | None = None
    ) -> None:
        self.path = path
        self.notes = dict(notes or {})
        self.checkpoints = path / "checkpoints"
        self._metrics, self._episodes = path / "metrics.jsonl", path / "episodes.jsonl"
        self._alarms = path / "alarms.jsonl"
        if not resume_at:
            check_free(path)
        path.mkdir(parents=True, exist_ok=True)
        for records in (self._metrics, self._episodes, self._alarms):
            _keep_before(records, resume_at)
        if not resume_at:
            write_json(path / "config.json", dict(config))
        write_json(path / "versions.json", versions() | self.notes)
        from torch.utils.tensorboard import SummaryWriter

        self._board = SummaryWriter(str(path), purge_step=resume_at)

    def log(
        self,
        update: int,
        metrics: Mapping[str, float],
        trajectories: Iterable[Trajectory],
        alarms: Sequence[Alarm] = (),
    ) -> None:
        """Append one update's metrics, episodes and alarms; call it before the update's checkpoint is written.

        Raises:
            RunFolderError: the disk refused; a resume drops what was written of this update.
        """
        try:
            _append(self._episodes, (episode_record(update, t) for t in trajectories))
            _append(self._alarms, (alarm_record(alarm) for alarm in alarms))
            _append(self._metrics, [{"update": update, **metrics}])
            for name, value in metrics.items():
                self._board.add_scalar(name, value, update)
            for alarm in alarms:
                self._board.add_text(f"{alarm.agent}/alarm_{alarm.kind}", alarm.sentence, update)
            self._board.flush()
        except OSError as error:
            raise RunFolderError(
                f"{self.path} could not be written at update {update + 1}: {error}; free some space and resume"
            ) from error

    def close(self) -> None:
        """Close the TensorBoard writer."""
        self._board.close()


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Return the metrics of a run folder, update by update.

    Raises:
        RunFolderError: the folder holds no metrics.
    """
    file = path / "metrics.jsonl"
    if not file.is_file():
        raise RunFolderError(f"{path} holds no run: {file.name} is missing")
    with file.open(encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def _append(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    with path.open("a", encoding="utf-8") as stream:
        stream.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        stream.flush()
        os.fsync(stream.fileno())


def _keep_before(path: Path, update: int) -> None:
    """Drop lines of updates that will be done again, and a last line that a kill cut in two."""
    kept = []
    lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
    for line in lines:  # not splitlines(): what agents say may hold other line separators
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if record["update"] < update:
            kept.append(line + "\n")
    with replacing(path) as stream:
        stream.writelines(kept)
