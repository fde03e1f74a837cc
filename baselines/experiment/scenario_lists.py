"""Scenario lists: the frozen tasks and seeds that evaluations play, as a file with a checksum.

Two evaluations can be compared scenario by scenario only if they played the same list. A list names tasks by their ids,
so teams of any size can play it. Its checksum covers the ids, the seeds and the content of the tasks (prompt and gold
answer): a task that changed in the data changes the checksum.

The file is JSON:

    {"schema": "marft.scenarios/1", "checksum": "sha256:...", "tasks": "gsm8k", "content": "sha256:...",
     "scenarios": [{"task_id": "stories-test-00000", "seed": 0}, ...], "cohorts": {"level": [1, ...], ...}}

`tasks` is the name of the task set. An environment without a list of tasks draws them from seeds: there `tasks` is the
environment's id, and `task_id` and `content` are null.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marft_agents.runs.run_folder import write_json
from marft_envs.environment_capabilities import listing_game

SCHEMA = "marft.scenarios/1"
FIELDS = {"schema", "checksum", "tasks", "content", "scenarios", "cohorts"}
MOST_COHORTS = 20  # a property of tasks with more values than this does not group them
TECHNICAL = ("kind", "gold_mode")  # properties that say how a task is graded

Cohorts = Mapping[str, Sequence[str | int | float | None]]


class ScenarioListError(ValueError):
    """Unusable scenario list; the message names the place, the value found and the value wanted."""


@dataclass(frozen=True)
class Scenario:
    """One scenario.

    Attributes:
        task_id: Id of its task; None where tasks are drawn from the seed.
        seed: Seed of the environment.
    """

    task_id: str | None
    seed: int


@dataclass(frozen=True)
class ScenarioList:
    """A frozen list of scenarios.

    Attributes:
        tasks: Name of the task set, or the environment's id where tasks are drawn from seeds.
        content: SHA-256 of the prompts and gold answers; None where tasks are drawn from seeds.
        scenarios: The scenarios in the order of the scores.
        cohorts: Value of each scenario by property of its task (level, subject, ...); None where it has none.
    """

    tasks: str
    content: str | None
    scenarios: tuple[Scenario, ...]
    cohorts: Cohorts

    @property
    def checksum(self) -> str:
        """SHA-256 of task set, content and scenarios; cohorts only describe them."""
        scenarios = [[one.task_id, one.seed] for one in self.scenarios]
        return _sha256([SCHEMA, self.tasks, self.content, scenarios])

    def record(self) -> dict[str, Any]:
        """Return the entries of evaluation.json that identify and describe the scenarios."""
        cohorts = {name: list(values) for name, values in self.cohorts.items()}
        return {"scenario_checksum": self.checksum, "cohorts": cohorts}

    def options(self, env: Any, env_id: str) -> list[dict[str, Any]]:
        """Return the reset options that play this list in an environment.

        Args:
            env: Environment that plays.
            env_id: Its versioned id, which names the scenarios where tasks are drawn from seeds.

        Raises:
            ScenarioListError: The environment has another task set, lacks tasks, or has other tasks under their ids.
        """
        game = listing_game(env)
        there = env_id if game is None else game.tasks.name
        if there != self.tasks:
            raise ScenarioListError(
                f"the scenario list is of the tasks {self.tasks!r}, this environment plays {there!r}"
            )
        if game is None:
            return [{"seed": one.seed} for one in self.scenarios]
        places, missing = [], []
        for one in self.scenarios:
            try:
                places.append(game.tasks.index(str(one.task_id)))
            except KeyError:
                missing.append(str(one.task_id))
        if missing:
            raise ScenarioListError(
                f"{len(missing)} of {len(self.scenarios)} tasks of the scenario list are not in this environment's "
                f"{len(game.tasks)}, the first: {missing[0]!r}; wanted the --data and --split that the list is from"
            )
        if _content(game, places) != self.content:
            raise ScenarioListError(
                "tasks of the scenario list have other prompts or gold answers in this environment: the data changed "
                "since the list was written; make a new list with --save-scenarios and play both arms again"
            )
        return [{"index": i, "seed": one.seed} for i, one in zip(places, self.scenarios, strict=True)]

    def write(self, path: Path) -> None:
        """Write the list to a JSON file, atomically."""
        scenarios = [vars(one) for one in self.scenarios]
        head = {"schema": SCHEMA, "checksum": self.checksum, "tasks": self.tasks, "content": self.content}
        write_json(path, head | {"scenarios": scenarios, "cohorts": self.record()["cohorts"]})


def scenario_list(env: Any, options: Sequence[Mapping[str, Any]], env_id: str) -> ScenarioList:
    """Make the list of the scenarios that an evaluation plays.

    Args:
        env: Environment that plays.
        options: Reset options of each scenario; the seed of one without "seed" is its place in the list.
        env_id: Versioned id of the environment, which names the scenarios where tasks are drawn from seeds.
    """
    game = listing_game(env)
    seeds = [int(one.get("seed", place)) for place, one in enumerate(options)]
    if game is None:
        return ScenarioList(env_id, None, tuple(Scenario(None, seed) for seed in seeds), {})
    places, scenarios, metas = [], [], []
    for one, seed in zip(options, seeds, strict=True):
        task_id = one.get("task_id")
        place = int(one["index"]) if task_id is None else int(game.tasks.index(task_id))
        task = game.tasks[place]
        places.append(place)
        scenarios.append(Scenario(task.id, seed))
        metas.append(task.meta)
    return ScenarioList(game.tasks.name, _content(game, places), tuple(scenarios), _cohorts(metas))


def read(path: Path) -> ScenarioList:
    """Read a list and check its checksum.

    Raises:
        ScenarioListError: The file cannot be read, is no scenario list, or was changed by hand.
    """
    try:
        record = json.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise ScenarioListError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ScenarioListError(
            f"{path} is not JSON: {error}; wanted a list that marft eval --save-scenarios wrote"
        ) from error
    if not isinstance(record, dict) or record.get("schema") != SCHEMA or set(record) != FIELDS:
        found = f"schema {record.get('schema')!r}" if isinstance(record, dict) else type(record).__name__
        raise ScenarioListError(
            f"{path}: found {found}, wanted a scenario list ({SCHEMA}) with {', '.join(sorted(FIELDS))}; "
            "`marft eval --save-scenarios FILE` writes one"
        )
    parsed = _parse(path, record)
    if parsed.checksum != record["checksum"]:
        raise ScenarioListError(
            f"{path}: the checksum of the content is {parsed.checksum}, the file says {record['checksum']!r}: it was "
            "changed after it was written; write the list again with --save-scenarios"
        )
    return parsed


def _parse(path: Path, record: Mapping[str, Any]) -> ScenarioList:
    """Read a record that has all `FIELDS`, and check the type of each."""
    scenarios, cohorts = record["scenarios"], record["cohorts"]
    if not isinstance(record["tasks"], str) or not isinstance(record["content"], str | None):
        raise ScenarioListError(f"{path}: tasks and content: wanted texts")
    if not isinstance(scenarios, list) or not scenarios:
        raise ScenarioListError(f"{path}: scenarios: wanted a list with at least one")
    for place, one in enumerate(scenarios):
        known = isinstance(one, dict) and set(one) == {"task_id", "seed"}
        # `type`, since true and false are instances of int, and no seeds
        if not known or not isinstance(one["task_id"], str | None) or type(one["seed"]) is not int or one["seed"] < 0:
            raise ScenarioListError(
                f'{path}: scenarios[{place}]: found {one!r}, wanted {{"task_id": TEXT, "seed": NUMBER >= 0}}'
            )
    wrong_cohorts = ScenarioListError(f"{path}: cohorts: wanted a list of {len(scenarios)} values by name")
    if not isinstance(cohorts, dict):
        raise wrong_cohorts
    for values in cohorts.values():
        if not isinstance(values, list) or len(values) != len(scenarios):
            raise wrong_cohorts
    return ScenarioList(record["tasks"], record["content"], tuple(Scenario(**one) for one in scenarios), cohorts)


def _content(game: Any, places: Sequence[int]) -> str:
    """Return the SHA-256 of the prompts and gold answers of some tasks."""
    content = []
    for place in places:
        task = game.tasks[place]
        content.append([task.id, task.prompt, task.answer])
    return _sha256(content)


def _cohorts(metas: Sequence[Mapping[str, Any]]) -> Cohorts:
    """Return the properties that group tasks, by name; None for a task without it."""
    names: dict[str, None] = {}  # in the order of the tasks
    for meta in metas:
        names.update(dict.fromkeys(meta))
    cohorts = {}
    for name in names:
        values = [meta.get(name) for meta in metas]
        if name not in TECHNICAL and len(set(values)) <= MOST_COHORTS:
            cohorts[name] = values
    return cohorts


def _sha256(content: Any) -> str:
    # Without spaces and escapes: the bytes that a list's checksum was defined with. A prompt may hold lone surrogates.
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
