"""Episodes of a run or an evaluation, read from its episodes.jsonl.

An evaluation holds whole records. The records of a run leave out what a replay rebuilds: its environment is made again
from `config.json`, and takes the recorded actions and outcomes. No judge, tool or model runs. Rebuilt episodes also
have the chat form of their observations, which no file holds.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from baselines.experiment.run_surface import RecordedEnvironment
from marft_envs.environment_capabilities import dependency_game
from marft_envs.game.episode import Episode
from marft_envs.records.replay import rebuild


class Recorded(NamedTuple):
    """An episode with the line that records it.

    Attributes:
        place: File and line.
        line: Content of the line: update, infos and the like.
        episode: The whole record.
    """

    place: str
    line: Mapping[str, Any]
    episode: Episode


class EpisodeSource:
    """Episodes of a run or an evaluation, read one by one.

    Args:
        place: Folder with episodes.jsonl, and evaluation.json or config.json.
        rebuilt: True rebuilds the episodes of an evaluation too, for the chat form of their observations.
        trust: True to make the environment that the record of somebody else describes.

    Attributes:
        file: Path of the episodes.jsonl.
        evaluation: True for an evaluation.
        failed: Number of failed episodes passed over so far; they have no record of their game.

    Raises:
        ValueError: The folder is neither.
    """

    def __init__(self, place: Path, *, rebuilt: bool = False, trust: bool | None = False) -> None:
        self.failed = 0
        self.file = place / "episodes.jsonl"
        self.evaluation = (place / "evaluation.json").is_file()
        if not self.file.is_file() or not (self.evaluation or (place / "config.json").is_file()):
            raise ValueError(
                f"{place} is neither a run nor an evaluation: wanted a folder with episodes.jsonl, and config.json or "
                "evaluation.json"
            )
        self.replay: Rebuilt | None = None
        if rebuilt or not self.evaluation:
            self.replay = Rebuilt(place / ("evaluation.json" if self.evaluation else "config.json"), trust=trust)

    def episodes(self) -> Iterator[Episode]:
        """Yield the episodes, see `records`."""
        return (recorded.episode for recorded in self.records())

    def records(self) -> Iterator[Recorded]:
        """Yield the episodes with their lines.

        Raises:
            ValueError: A line is no record of an episode, or does not fit the environment; names file and line.
        """
        found = False
        with self.file.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if not line.endswith(b"\n"):
                    break  # a kill cut it; a resume drops it too
                place = f"{self.file}:{number}"
                try:
                    record = json.loads(line)
                    episode = self._read(record) if record["failure"] is None else None
                except (KeyError, TypeError, ValueError) as error:
                    raise ValueError(f"{place}: {type(error).__name__}: {error}") from error
                if episode is None:
                    self.failed += 1
                else:
                    yield Recorded(place, record, episode)
                    found = True
        if not found:
            raise ValueError(f"{self.file} has no episode to export; {self.failed} failed")

    def _read(self, record: Mapping[str, Any]) -> Episode:
        return Episode.from_dict(_game(record)) if self.replay is None else self.replay(record)


def _game(record: Mapping[str, Any]) -> Mapping[str, Any]:
    game: Mapping[str, Any] | None = record["game"]
    if game is None:
        raise ValueError("its environment records no games (`records_episodes` of its metadata)")
    return game


class Rebuilt:
    """Rebuilds the episodes of a run or an evaluation in an environment made as its settings say.

    Args:
        config: A config.json or evaluation.json.
        trust: True to act on the record of somebody else.

    Attributes:
        env_id: Id of the environment.
        keywords: Keywords of `marft_envs.make`.
        env: Environment that rebuilds them.
        config: Content of the file.
        own: True if this user wrote the file here, or trusts it.
    """

    def __init__(self, config: Path, *, trust: bool | None = False) -> None:
        made = RecordedEnvironment(config, trust=trust)
        self.env, self.env_id, self.keywords = made.env, made.env_id, made.keywords
        self.config, self.own = made.config, made.own
        if dependency_game(self.env) is None:
            raise ValueError(
                f"{self.env_id} is no Flex-MG: its short records cannot be rebuilt; `marft report` shows them"
            )

    def __call__(self, record: Mapping[str, Any]) -> Episode:
        """Return the whole record of a line.

        Raises:
            ValueError: It does not fit the environment.
        """
        game, turns = _game(record), record["turns"]
        episode = rebuild(
            self.env,
            seed=record["seed"],
            task_id=game["task_id"],
            actions=[turn["text"] for turn in turns],
            outcomes=game["outcomes"],
        )
        # The games may differ where the code of the environment changed since; then its actions mean something else.
        recorded = [(turn["agent"], turn["round"], tuple(map(tuple, turn["visible"]))) for turn in game["turns"]]
        if recorded != [(turn.agent, turn.round, turn.visible) for turn in episode.turns]:
            raise ValueError(f"task {game['task_id']!r}: agents act or see others in another order than was recorded")
        counted = []
        for turn, own, kept in zip(episode.turns, turns, game["turns"], strict=True):
            shortened = tuple(kept.get("shortened", ()))
            counted.append(turn._replace(tokens=own["tokens"] or None, shortened=shortened))
        last = {turn["round"]: turn["reward"] for turn in turns}  # of a round, its last turn is paid
        return dataclasses.replace(
            episode, turns=tuple(counted), rewards=tuple(last.values()), terms=dict(game["terms"])
        )
