"""`marft export`: the episodes of a run or an evaluation as JSON Lines, Parquet or OpenTelemetry spans.

An evaluation holds whole records. The records of a run leave out what a replay rebuilds: its environment is made again
from `config.json`, and takes the recorded actions and outcomes. No judge, tool or model runs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import marft_envs
from marft_envs.environment_capabilities import dependency_game
from marft_envs.records.episode import Episode
from marft_envs.records.files import write_episodes
from marft_envs.records.opentelemetry import write_spans
from marft_envs.records.replay import rebuild

FORMATS = ("jsonl", "parquet", "spans")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `marft export`."""
    parser.add_argument("place", type=Path, metavar="RUN|EVALUATION", help="folder of a run or of an evaluation")
    parser.add_argument(
        "--format", choices=FORMATS, required=True, help="JSON Lines, Parquet, or OpenTelemetry spans (OTLP JSON lines)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="file to write")
    parser.add_argument(
        "--texts", action="store_true", help="spans with observations, actions and arguments; the others have them"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the file if it exists")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `marft export`."""
    out: Path = arguments.out
    if out.exists() and not arguments.overwrite:
        raise ValueError(f"{out} exists already: give another --out, or --overwrite")
    out.parent.mkdir(parents=True, exist_ok=True)
    source = EpisodeSource(arguments.place)
    if arguments.format == "spans":
        count = write_spans(out, source.episodes(), texts=arguments.texts)
    else:
        count = write_episodes(out, source.episodes(), arguments.format)
    print(f"{out}: {count} episodes" + (f"; {source.failed} failed ones have no record" if source.failed else ""))
    return 0


class EpisodeSource:
    """Episodes of a run or an evaluation, read one by one.

    Args:
        place: Folder with episodes.jsonl, and evaluation.json or config.json.

    Attributes:
        failed: Number of failed episodes passed over so far; they have no record of their game.

    Raises:
        ValueError: The folder is neither.
    """

    def __init__(self, place: Path) -> None:
        self.failed = 0
        self._lines = place / "episodes.jsonl"
        self._read: Callable[[Mapping[str, Any]], Episode] = _whole
        whole = (place / "evaluation.json").is_file()
        if not self._lines.is_file() or not (whole or (place / "config.json").is_file()):
            raise ValueError(
                f"{place} is neither a run nor an evaluation: wanted a folder with episodes.jsonl, and config.json or "
                "evaluation.json"
            )
        if not whole:
            self._read = _Rebuilt(place / "config.json")

    def episodes(self) -> Iterator[Episode]:
        """Yield the episodes.

        Raises:
            ValueError: A line is no record of an episode, or does not fit the environment; names file and line.
        """
        found = False
        with self._lines.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if not line.endswith(b"\n"):
                    break  # a kill cut it; a resume drops it too
                try:
                    record = json.loads(line)
                    if record["failure"] is None:
                        yield self._read(record)
                        found = True
                    else:
                        self.failed += 1
                except (KeyError, TypeError, ValueError) as error:
                    raise ValueError(f"{self._lines}:{number}: {type(error).__name__}: {error}") from error
        if not found:
            raise ValueError(f"{self._lines} has no episode to export; {self.failed} failed")


def _whole(record: Mapping[str, Any]) -> Episode:
    """Return the episode of an evaluation's record."""
    return Episode.from_dict(_game(record))


def _game(record: Mapping[str, Any]) -> Mapping[str, Any]:
    game: Mapping[str, Any] | None = record["game"]
    if game is None:
        raise ValueError("its environment records no games (`records_episodes` of its metadata)")
    return game


class _Rebuilt:
    """Rebuilds the episodes of a run in an environment made as its config.json says."""

    def __init__(self, config: Path) -> None:
        try:
            told = json.loads(config.read_text(encoding="utf-8"))
            env_id, keywords = told["env"], dict(told["keywords"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{config} is no record of a run: {type(error).__name__}: {error}") from error
        self._env = marft_envs.make(env_id, **keywords)
        if dependency_game(self._env) is None:
            raise ValueError(f"{env_id} is no Flex-MG: its short records cannot be rebuilt")

    def __call__(self, record: Mapping[str, Any]) -> Episode:
        game, turns = _game(record), record["turns"]
        episode = rebuild(
            self._env,
            seed=record["seed"],
            task_id=game["task_id"],
            actions=[turn["text"] for turn in turns],
            outcomes=game["outcomes"],
        )
        recorded = [(turn["agent"], turn["round"], tuple(map(tuple, turn["visible"]))) for turn in game["turns"]]
        if recorded != [(turn.agent, turn.round, turn.visible) for turn in episode.turns]:
            raise ValueError(f"task {game['task_id']!r}: agents act or see others in another order than was recorded")
        counted = [
            turn._replace(tokens=own["tokens"] or None, shortened=tuple(kept.get("shortened", ())))
            for turn, own, kept in zip(episode.turns, turns, game["turns"], strict=True)
        ]
        last = {turn["round"]: turn["reward"] for turn in turns}  # of a round, its last turn is paid
        return dataclasses.replace(
            episode, turns=tuple(counted), rewards=tuple(last.values()), terms=dict(game["terms"])
        )
