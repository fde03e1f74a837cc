"""Turn recorded failures into tasks to train on, and recorded outcomes into one side of a comparison."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from baselines.experiment.environments import settings_of, versioned_id
from baselines.experiment.scenario_lists import ScenarioList, scenario_list
from baselines.training_data.conditions import Condition
from baselines.training_data.from_runs import select
from baselines.training_data.recordings import RecordedEpisode, Recording, RecordingError
from baselines.training_data.scrubbing import Scrubber
from marft_agents.intervals import wilson
from marft_agents.runs.run_folder import replacing, versions
from marft_envs import data
from marft_envs.environment_capabilities import listing_game
from marft_envs.game.task import Task
from marft_envs.tasks.tools.tasks import TeamTools, ToolTask
from marft_envs.tasks.worlds.declared import declaration_of
from marft_envs.tasks.worlds.task_loading import row_of as tool_row

FAILED = "not success"


class Mined(NamedTuple):
    """Tasks of failed episodes.

    Attributes:
        rows: Rows of a data file, one a task, those that failed most often first.
        without_gold: Number of rows without a gold answer, which no environment grades yet.
    """

    rows: list[dict[str, Any]]
    without_gold: int


def mine(recordings: Sequence[Recording], where: Condition, scrubber: Scrubber | None = None) -> Mined:
    """Return the tasks of the chosen episodes as rows that data loaders read.

    A row has the columns of its task, and `failures`, `attempts` and `tags` (kinds of trouble, the most frequent
    first). The task of a trace that no environment lists has only its problem.

    Args:
        recordings: Episodes by source.
        where: Condition that chooses the failed episodes.
        scrubber: Replaces credentials in problems that come from spans; None makes one.

    Raises:
        ConditionError, RecordingError: See `from_runs.select`; or success was not recorded and nothing else is asked.
    """
    scrubber = scrubber or Scrubber()
    everything = [episode for recording in recordings for episode in recording.episodes]
    unknown = sum(episode.facts["success"] is None for episode in everything)
    if unknown and where.text == FAILED:
        told = sorted(set().union(*(episode.facts.get("attributes", {}) for episode in everything)))
        raise RecordingError(
            f"{unknown} of {len(everything)} episodes do not record success: say with --where which failed, like "
            f"\"attributes['NAME'] == False\"; their root spans have {', '.join(told)[:300] or 'no attributes'}"
        )
    attempts = Counter(episode.task_id for episode in everything)
    failed: dict[str, list[RecordedEpisode]] = {}
    games: dict[str, Any] = {}  # game of each task
    for recording, episodes in zip(recordings, select(recordings, where, splits=()), strict=True):
        for episode in episodes:
            failed.setdefault(episode.task_id, []).append(episode)
            games.setdefault(episode.task_id, recording.game)
    rows = []
    for task_id, own in sorted(failed.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        tags = Counter(tag for episode in own for tag in episode.tags)
        about = {"failures": len(own), "attempts": attempts[task_id], "tags": [tag for tag, _ in tags.most_common()]}
        rows.append(_row(own[0], games[task_id], scrubber) | about)
    return Mined(rows, sum("answer" not in row and "goal" not in row for row in rows))


def _row(episode: RecordedEpisode, game: Any, scrubber: Scrubber) -> dict[str, Any]:
    task = episode.task
    if task is None:
        return {"id": episode.task_id, "problem": scrubber.prompt(episode.problem)}
    if isinstance(task, ToolTask):
        # Each row declares the tools of its world, so that any selection of rows is a data file.
        tools = _declaration(game, task.world)
        return tool_row(task) | ({} if tools is None else {"tools": tools})
    if task.meta.get("kind") in data.KINDS:
        return data.row_of(task)
    raise RecordingError(
        f"{episode.place}: a task of {episode.facts['env']} cannot be written as a row of a data file: write a "
        "scenario list with `marft data mine --scenarios FILE`, which `marft eval --scenarios FILE` plays"
    )


def _declaration(game: Any, world: str) -> list[dict[str, Any]] | None:
    """Return the tools of a world that the data of a game declares, None for a world of another kind."""
    listing = listing_game(game)
    assert listing is not None  # the task was found in its list
    assert isinstance(listing.tasks, TeamTools)  # which alone has such tasks
    (kind,) = (kind for kind in listing.tasks.kinds() if kind.name == world)
    return declaration_of(kind)


def failed_scenarios(recordings: Sequence[Recording], where: Condition) -> ScenarioList:
    """Return the chosen episodes as a scenario list: their tasks and seeds, each once.

    Raises:
        RecordingError: The sources are not of one environment that lists its tasks.
    """
    recording = _one_environment(recordings)
    chosen = [episode for episodes in select(recordings, where, splits=()) for episode in episodes]
    return scenario_list(recording.game, _options(chosen), versioned_id(str(recording.env)))


class Shadow(NamedTuple):
    """Recorded outcomes as an evaluation.

    Attributes:
        record: Content of its evaluation.json.
        scenarios: Tasks and seeds that were played, for the candidate.
    """

    record: dict[str, Any]
    scenarios: ScenarioList


def shadow(recordings: Sequence[Recording], where: Condition) -> Shadow:
    """Return recorded outcomes in the form of an evaluation, to compare a candidate with.

    Several episodes of one task and seed are the samples of one scenario. The record is less than that of `marft eval`:
    it has what `marft compare` reads.

    Raises:
        ConditionError: See `from_runs.select`.
        RecordingError: The sources are not of one environment that lists its tasks, or success was not recorded.
    """
    recording = _one_environment(recordings)
    chosen = [episode for episodes in select(recordings, where, splits=()) for episode in episodes]
    if unscored := [episode for episode in chosen if episode.facts["success"] is None]:
        raise RecordingError(f"{unscored[0].place}: success is not recorded, so a candidate cannot be compared with it")
    options = _options(chosen)
    places = {(one["task_id"], one["seed"]): place for place, one in enumerate(options)}
    samples: list[list[RecordedEpisode]] = [[] for _ in options]
    for episode in chosen:
        samples[places[episode.task_id, episode.facts["seed"] or 0]].append(episode)
    most = max(map(len, samples))

    def grid(name: str) -> list[list[float | None]]:
        rows: list[list[float | None]] = []
        for own in samples:
            told = [episode.facts.get(name) for episode in own]
            rows.append([None if value is None else float(value) for value in told] + [None] * (most - len(own)))
        return rows

    env_id = versioned_id(str(recording.env))
    played = scenario_list(recording.game, options, env_id)
    scores = grid("success")
    means = np.array([np.mean([cell for cell in row if cell is not None]) for row in scores])
    accuracy = wilson(float(means.mean()), len(means))
    config = recording.config
    record = {
        "env": env_id,
        "keywords": dict(recording.keywords),
        "settings": settings_of(recording.game),
        "recorded": [{"path": str(one.path), "kind": one.kind, "sha256": one.sha256} for one in recordings],
        "law": config.get("law") or {},
        "context": config.get("context") or {},
        "max_turns": config.get("max_turns", (config.get("schedule") or {}).get("max_turns")),
        "seeds": list(range(most)),
        "accuracy": accuracy.mean,
        "interval_95": [accuracy.low, accuracy.high],
        "scores": scores,
        "violation": None if any(math.isnan(v) for v in _numbers(chosen, "violation")) else grid("violation"),
        "versions": versions(),
        **played.record(),
    }
    if not any(math.isnan(value) for value in _numbers(chosen, "tokens")):
        record["tokens"] = grid("tokens")
    return Shadow(record, played)


def _numbers(episodes: Sequence[RecordedEpisode], name: str) -> list[float]:
    told = [episode.facts.get(name) for episode in episodes]
    return [math.nan if value is None else float(value) for value in told]


def _one_environment(recordings: Sequence[Recording]) -> Recording:
    """Return the first source; refuse sources of several environments, or without a list of tasks."""
    first = recordings[0]
    if first.game is None or listing_game(first.game) is None:
        raise RecordingError(
            f"{first.path}: its tasks are not known: give --env ID and the flags of its environment, like --data and "
            "--split"
        )
    for other in recordings[1:]:
        if (other.env, dict(other.keywords)) != (first.env, dict(first.keywords)):
            raise RecordingError(
                f"{first.path} and {other.path} are of different environments ({first.env}, {other.env}, or other "
                "keywords): make one list for each"
            )
    unlisted: list[Task | None] = [episode.task for recording in recordings for episode in recording.episodes]
    if None in unlisted:
        raise RecordingError(
            f"{first.path}: {unlisted.count(None)} of {len(unlisted)} episodes are of tasks that {first.env} does not "
            "list: wanted marft.task.id on their root spans, and the --data and --split that they were played with"
        )
    return first


def _options(episodes: Sequence[RecordedEpisode]) -> list[dict[str, Any]]:
    """Return the reset options of each task and seed once, in order."""
    known = dict.fromkeys((episode.task_id, episode.facts["seed"] or 0) for episode in episodes)
    return [{"task_id": task_id, "seed": seed} for task_id, seed in known]


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows as JSON Lines, whole or not at all."""
    with replacing(path) as stream:
        stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
