"""Environment flags of the command line, as keywords of `marft_envs.make`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import marft_envs
from baselines.experiment.environments import KEYWORDS
from marft_envs.communication import FORMS
from marft_envs.game.rewards import PRESETS
from marft_envs.game.secrets import PLACES
from marft_envs.graders import GraderSettings
from marft_envs.registration.factory import takes
from marft_envs.registration.task_environment import TaskEnvironment
from marft_envs.teams.team import as_team

TRAINED = (
    "a run of `marft train` (its newest checkpoint), RUN@best, RUN@update-00012, or a checkpoint"  # help of a flag
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
    group.add_argument(
        "--canaries",
        choices=PLACES,
        help="plant a random word into each agent's private context: at the end of its system prompt, or of its own "
        "text of the first round; marft eval counts those that get out",
    )
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
