"""Environments of experiments: factories, versioned ids, effective settings, and the scenarios of an evaluation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import marft_envs
from marft_agents.setting_fields import SettingsError
from marft_envs import Tasks, Team
from marft_envs.environment_capabilities import dependency_game, independent_games, listing_game
from marft_envs.graders import GradedTasks

KEYWORDS = (  # of `marft_envs.make` that have a flag of their own
    "data",
    "split",
    "team",
    "dependency",
    "horizon",
    "reward",
    "feedback",
    "communication",
    "max_action_chars",
    "canaries",
    "judge",
    "grader",
    "tools",
    "memory",
    "size",
)


PROBES = {  # former module of a game that tests one ability, as older plans and records name it -> its module
    "baselines.bench.chores": "baselines.probes.shared_work",
    "baselines.bench.compaction_probe": "baselines.probes.compaction",
    "baselines.bench.memory_probe": "baselines.probes.memory",
    "baselines.bench.probe_games": "baselines.probes.digit_games",
    "baselines.bench.routing_probe": "baselines.probes.routing",
}


def current_id(env_id: str) -> str:
    """Return the id MODULE:ID of a plan or a record with the current module.

    Examples:
        >>> current_id("baselines.bench.probe_games:probe/copy_duo-v0"), current_id("marft/math_duo-v0")
        ('baselines.probes.digit_games:probe/copy_duo-v0', 'marft/math_duo-v0')
    """
    module, colon, name = env_id.rpartition(":")
    return f"{PROBES.get(module, module)}{colon}{name}"


def former_id(env_id: str) -> str:
    """Return an id as plans named it before the games that test one ability had a folder of their own."""
    module, colon, name = env_id.rpartition(":")
    former = {now: before for before, now in PROBES.items()}
    return f"{former.get(module, module)}{colon}{name}"


def factory(env_id: str, keywords: Mapping[str, Any]) -> Callable[[], Any]:
    """Return a function that makes independent environments; data is loaded and checked once, in this call.

    Raises:
        KeyError, TypeError, ValueError: Raised by `marft_envs.make`.
    """
    return independent_games(partial(marft_envs.make, env_id, **keywords))


_registered: dict[str, tuple[Mapping[str, Tasks], Team]] = {}  # by id


def registered(splits: Mapping[str, Tasks], team: Team) -> str:
    """Register tasks by split with a team as `own/{tasks}_{team}-v0`, unless they are; return the id.

    Others of the same name get a number: two experiments of one program never share an id. A program that makes them in
    the same order has the same ids each time, so it can resume its runs.
    """
    first, *_ = (tasks.name for tasks in splits.values())
    for number in count(1):
        name = first if number == 1 else f"{first}{number}"
        env_id = f"own/{name}_{team.name}-v0"
        if env_id not in _registered:
            marft_envs.register_task(name, splits, teams={team.name: team}, namespace="own")
            _registered[env_id] = dict(splits), team
        # The very same objects: equal tasks may hold judges or files of their own.
        known, playing = _registered[env_id]
        same = known.keys() == splits.keys() and all(known[split] is splits[split] for split in splits)
        if same and playing == team:
            return env_id
    raise AssertionError("numbers do not end")


def refuse_elsewhere(env_id: str) -> None:
    """Raise SettingsError for an id that this program alone knows: the processes of Ray would not find it."""
    spec = marft_envs.spec(env_id)
    if ":" not in env_id and not spec.plugin and not spec.id.startswith("marft/"):
        raise SettingsError(
            f"env = {env_id!r}: these tasks are known in this program alone, and workers and learners of Ray are other "
            "programs: put register_task(...) with them into a module, and name that: Experiment('MODULE:my/NAME-v0')"
        )


def keep_grades(env: Any, folder: Path) -> None:
    """Keep the grades of `--grader` in a folder, for all games of the environment: `grades.jsonl`."""
    game = listing_game(env)
    if game is not None and isinstance(game.tasks, GradedTasks):
        game.tasks.keep_grades(folder / "grades.jsonl")


def versioned_id(env_id: str) -> str:
    """Return an id with the version that `marft_envs.make` chooses, for reproducible records.

    Raises:
        UnknownEnvironmentError: No environment is registered under the id.
    """
    module, colon, _ = env_id.rpartition(":")
    return f"{module}{colon}{marft_envs.spec(env_id).id}"


def notes_of(env: Any) -> dict[str, str]:
    """Return the environment's entry in the notes of a run: the hash of its tool surface, if it has tools."""
    game = dependency_game(env)
    found = None if game is None else game.settings.get("tool_surface")
    return {} if found is None else {"tool_surface": found}


def settings_of(env: Any) -> dict[str, Any]:
    """Return the effective settings of an environment as JSON (horizon, feedback, ...); empty where it shows none."""
    game = dependency_game(env)
    # Through JSON, so that a setting compares equal with what a record holds of it.
    return {} if game is None else json.loads(json.dumps(game.settings, default=str))


def scenarios(env: Any, limit: int | None) -> list[dict[str, Any]]:
    """Return the reset options of an evaluation: its list of tasks, or the seeds 0, 1, ... where it has none.

    Args:
        env: Environment to evaluate on.
        limit: Maximum number of scenarios. Tasks are spread evenly, since data sets are often sorted by subject.
            None means all tasks, or 100 seeds for environments without a list of tasks.

    Raises:
        ValueError: The limit is below 1.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"--limit = {limit}, wanted >= 1")
    game = listing_game(env)
    if game is not None:
        total = len(game.tasks)
        count = total if limit is None else min(limit, total)
        return [{"index": i * total // count} for i in range(count)]
    return [{"seed": i} for i in range(100 if limit is None else limit)]


def tasks_of(env: Any, setting: str) -> list[dict[str, Any]]:
    """Return the reset options of every task of an environment.

    Raises:
        ValueError: The environment has no list of tasks; the message names the setting that needs one.
    """
    if listing_game(env) is None:
        raise ValueError(
            f"--{setting} needs an environment with a list of tasks; {type(env.unwrapped).__name__} has none: tasks "
            "are drawn from seeds, give --updates"
        )
    return scenarios(env, None)
