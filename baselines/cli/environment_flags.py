"""Environment flags of the command line, and a factory of independent environments."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import marft_envs
from marft_envs.communication import FORMS
from marft_envs.environment_capabilities import dependency_game, independent_games, listing_game
from marft_envs.game.rewards import PRESETS
from marft_envs.graders import GradedTasks, GraderSettings
from marft_envs.registration.factory import takes
from marft_envs.registration.task_environment import TaskEnvironment
from marft_envs.teams.team import as_team

KEYWORDS = (
    "data",
    "split",
    "team",
    "dependency",
    "horizon",
    "reward",
    "feedback",
    "communication",
    "max_action_chars",
    "judge",
    "grader",
    "tools",
    "memory",
    "size",
)


def add_run_flags(parser: argparse.ArgumentParser, *, out: str) -> None:
    """Add --env and --out.

    Args:
        parser: Parser of the command.
        out: Help text of --out.
    """
    parser.add_argument("--env", metavar="ID", help="environment, like marft/math_duo-v0")
    parser.add_argument("--out", type=Path, metavar="DIR", help=out)


def add_environment_flags(parser: argparse.ArgumentParser, *, split: str | None = None, with_data: bool = True) -> None:
    """Add the keywords of `marft_envs.make` as flags; the environment decides on flags that are not given.

    Args:
        parser: Parser of the command.
        split: Split that is played where --split is not given; None: that of the environment.
        with_data: False leaves out --data, which the command uses for something else; --env-arg data=... remains.
    """
    group = parser.add_argument_group("environment")
    if with_data:
        group.add_argument("--data", help="embedded[:NAME], a JSON, JSONL, CSV or Parquet file, or hub:owner/name")
    group.add_argument("--split", help="train, test, ..." + (f" (default: {split})" if split else ""))
    parser.set_defaults(default_split=split)
    group.add_argument("--team", metavar="FILE", help="JSON file of a team, or a preset; default is that of the id")
    group.add_argument("--dependency", help="independent, chain, full, or a dependency as JSON")
    group.add_argument("--horizon", type=int, metavar="ROUNDS", help="rounds per episode")
    group.add_argument("--reward", help="success, outcome, recipe, or weights of terms as JSON")
    group.add_argument(
        "--reward-term",
        action="append",
        metavar="NAME=MODULE:FUNCTION[:WEIGHT]",
        help="add a term of your own to the team reward: a function of the Episode that returns a number. The weight "
        "is 1 unless given, 0 only records the term; success then pays as the term completion. May be repeated",
    )
    group.add_argument("--feedback", choices=("none", "verdict"), help="what the team is told of a round's verdict")
    group.add_argument("--communication", help=f"what an edge carries: {', '.join(FORMS)}, or JSON by edge")
    group.add_argument("--max-action-chars", type=int, metavar="N", help="longest action; the rest is cut")
    group.add_argument(
        "--judge", metavar="BACKEND", help="of codeforces: auto, docker, bubblewrap, landlock, unsafe, or ray:auto etc."
    )
    group.add_argument(
        "--grader",
        help="text, number, endpoint:URL, model:URL#NAME, MODULE:FUNCTION, a TOML file, or settings as JSON",
    )
    group.add_argument("--tools", metavar="FILE", help="TOML file with a world of HTTP endpoints and MCP servers")
    group.add_argument("--memory", help="of recall: agents, none, all, last:K, bm25:K, or write, read, distil as JSON")
    group.add_argument("--size", help="of recall: tiny, small, medium, large, or its fields as JSON")
    group.add_argument(
        "--env-arg", action="append", metavar="KEY=JSON", help="any other keyword of the environment; may be repeated"
    )


def read_keywords(arguments: argparse.Namespace, reward: Any = "success") -> dict[str, Any]:
    """Return the given keywords of `marft_envs.make`, as values that JSON can hold.

    Args:
        arguments: Parsed flags of the command.
        reward: Reward that --reward-term adds to where --reward is not given.

    Raises:
        ValueError: The value of an --env-arg, or an object given for another flag, is not JSON.
    """
    found = {name: getattr(arguments, name) for name in KEYWORDS if getattr(arguments, name, None) is not None}
    for name in ("dependency", "reward", "communication", "grader", "memory", "size"):
        if str(found.get(name, "")).lstrip().startswith("{"):
            found[name] = _json(f"--{name}", found[name])
    if terms := getattr(arguments, "reward_term", None):
        found["reward"] = _with_terms(found.get("reward", reward), terms)
    if "grader" in found:  # as data, so that a record does not depend on a file
        found["grader"] = GraderSettings.of(found["grader"]).to_dict()
    if "tools" in found:  # a path, since the file may hold secrets; absolute, so that a run can be resumed anywhere
        found["tools"] = str(Path(found["tools"]).expanduser().resolve())
    env_id = arguments.env if hasattr(arguments, "env") else arguments.id
    if (split := getattr(arguments, "default_split", None)) and takes(env_id, "split"):
        found = {"split": split} | found
    if "team" in found:
        entry_point = marft_envs.spec(env_id).entry_point
        read = entry_point.read_team if isinstance(entry_point, TaskEnvironment) else as_team
        found["team"] = read(found["team"]).to_dict()
    for item in getattr(arguments, "env_arg", None) or ():
        key, sign, text = item.partition("=")
        if not sign or not key:
            raise ValueError(f"--env-arg {item!r}: wanted KEY=JSON, like turns=3 or mode='\"hard\"'")
        found[key] = _json(f"--env-arg {key}", text)
    return found


def given_keywords(arguments: argparse.Namespace) -> list[str]:
    """Return the names of the keywords of `marft_envs.make` that flags give."""
    named = [name for name in KEYWORDS if getattr(arguments, name, None) is not None]
    return [*named, *(item.partition("=")[0] for item in getattr(arguments, "env_arg", None) or ())]


def _with_terms(reward: Any, terms: Sequence[str]) -> dict[str, Any]:
    """Return a reward as weights of terms, with those of --reward-term added."""
    if isinstance(reward, str):
        if reward not in ("success", *PRESETS):
            raise ValueError(
                f"--reward-term adds to weights of terms, which --reward {reward} has not: wanted success, "
                f"{', '.join(PRESETS)}, or weights as JSON"
            )
        reward = PRESETS.get(reward, {"completion": 1.0})
    own: dict[str, Any] = {}
    for item in terms:
        name, _, value = item.partition("=")
        module, _, rest = value.partition(":")
        function, colon, weight = rest.partition(":")
        if not (name and module and function) or name in own:
            wanted = (
                "each name once" if name in own else "NAME=MODULE:FUNCTION[:WEIGHT], like short=my_terms:short:-0.1"
            )
            raise ValueError(f"--reward-term {item!r}: wanted {wanted}")
        try:
            own[name] = {"function": f"{module}:{function}", "weight": float(weight) if colon else 1.0}
        except ValueError as error:
            raise ValueError(f"--reward-term {item!r}: the weight is {weight!r}, wanted a number") from error
    return {**reward, **own}


def _json(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{where}: {text!r} is not JSON ({error})") from error


def factory(env_id: str, keywords: Mapping[str, Any]) -> Callable[[], Any]:
    """Return a function that makes independent environments; data is loaded and checked once, in this call.

    Raises:
        KeyError, TypeError, ValueError: Raised by `marft_envs.make`.
    """
    return independent_games(partial(marft_envs.make, env_id, **keywords))


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


def model_folder_or_name(name: str) -> str:
    """Return a model name; make an existing path absolute, so that the run can be resumed from any folder."""
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() else name
