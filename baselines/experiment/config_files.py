"""Config files: TOML of a user, the config.json of a run, or an experiment that comes with marft."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from baselines.experiment.config_trust import EVERYTHING, Uses, require_trust
from baselines.experiment.experiment import SETTINGS, Experiment
from marft_agents.learning.algorithms import CRITIC_KNOBS, algorithm
from marft_common.close_names import close_or_all

TABLES = {field.name: table for table, (kind, _) in SETTINGS.items() for field in dataclasses.fields(kind)}
EXPERIMENTS = resources.files("baselines").joinpath("experiments")
PLANS = "bench"  # folder of the plans of `marft bench`, which are no configs
SFT = "sft"  # algorithm in the config.json of `marft sft`
# settings of an evaluation.json that `marft eval --config` takes as they are, and all that it takes
REPEATED = ("env", "keywords", "policy", "endpoint", "checkpoint", "law", "context", "remote", "seeds", "max_turns")
EVALUATED = (*REPEATED, "models", "scenario_file")


class ConfigError(ValueError):
    """Unusable config file; the message names the place, the value found and the value wanted."""


def bundled() -> list[str]:
    """Return the names of the experiments shipped with the package, as FOLDER/NAME."""
    names = []
    for folder in EXPERIMENTS.iterdir():
        if folder.is_dir() and folder.name != PLANS:
            for file in folder.iterdir():
                if file.name.endswith(".toml"):
                    names.append((folder.name, file.name))
    return [f"{folder}/{file.removesuffix('.toml')}" for folder, file in sorted(names)]


def read_file(name: str, uses: Uses = EVERYTHING, *, trust: bool | None = False) -> dict[str, Any]:
    """Read a config file.

    A TOML file that the user names is the user's own word, the record of a run is not.

    Args:
        name: Path of a TOML or JSON file or of a run folder, or the name of a bundled experiment.
        uses: The settings on which the caller acts.
        trust: True to act on the record of somebody else.

    Raises:
        ConfigError: No such file exists, or it cannot be read.
        UntrustedConfigError: This user did not write the record here, and it names commands, modules, servers or paths.
    """
    path: Path | Traversable = Path(name).expanduser()
    if path.is_dir() and path.joinpath("config.json").is_file():
        path = path.joinpath("config.json")
    if path.is_dir():
        raise ConfigError(f"--config {name} is a folder without config.json; wanted a TOML file or a run")
    if not path.is_file() and name.removesuffix(".toml") in bundled():
        path = EXPERIMENTS.joinpath(f"{name.removesuffix('.toml')}.toml")
    try:
        content = path.read_bytes()
        text = content.decode("utf-8")
        record = json.loads(text) if path.name.endswith(".json") else tomllib.loads(text)
    except FileNotFoundError as error:
        raise ConfigError(f"--config {name}: there is no such file{close_or_all(name, bundled())}") from error
    except OSError as error:
        raise ConfigError(f"--config {name} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"--config {name} is not UTF-8: {error}") from error
    except (ValueError, RecursionError) as error:
        kind = "JSON" if path.name.endswith(".json") else "TOML"
        raise ConfigError(f"--config {name} is not {kind}: {error}") from error
    if not isinstance(record, dict):
        raise ConfigError(f"--config {name}: found {type(record).__name__}, wanted an object with settings")
    if path.name.endswith(".json") and not trust:
        used = dataclasses.replace(uses, only=EVALUATED) if is_evaluation(record) else uses
        require_trust(Path(str(path)), content, record, used)
    return record


def is_evaluation(record: Mapping[str, Any]) -> bool:
    """Return True for the record of an evaluation."""
    return "scores" in record and "scenarios" in record


def config_of(experiment: Experiment) -> dict[str, Any]:
    """Return an experiment as a config: its record without inapplicable and derived settings.

    An algorithm without a critic drops the critic's settings; `updates` is dropped where it follows from `epochs`.
    """
    record = experiment.to_dict()
    if not algorithm(experiment.algorithm).critic:
        for name in CRITIC_KNOBS:
            record["learner"].pop(name, None)
    if experiment.schedule.epochs:
        del record["schedule"]["updates"]
    return record


def to_toml(experiment: Experiment, **others: Any) -> str:
    """Return the TOML config with which `marft train` reproduces an experiment.

    Args:
        experiment: The experiment to write.
        **others: Further flags such as `out`; those that are None are left out.
    """
    import tomli_w

    record = config_of(experiment)
    keywords, in_json = {}, []
    for name, value in record["keywords"].items():
        if _holds_none(value):  # TOML cannot write it; --env-arg takes JSON
            in_json.append(f"{name}={json.dumps(value)}")
        else:
            keywords[name] = value
    top: dict[str, Any] = {"command": "train"}
    tables: dict[str, dict[str, Any]] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            tables[key] = dict(value)
        elif value is not None:
            top[key] = value
    if in_json:
        top["env_arg"] = in_json
    for key, value in others.items():
        if value is not None:
            top[key] = str(value)
    tables["keywords"] = keywords
    for name in SETTINGS:  # a flag reads the word "none", a keyword would take it as text
        for key, value in tables[name].items():
            if value is None:
                tables[name][key] = "none"
    return tomli_w.dumps({**top, **tables})


def _holds_none(value: Any) -> bool:
    """Return True if a value is or contains None, for which TOML has no notation."""
    if isinstance(value, Mapping):
        return any(map(_holds_none, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_none, value))
    return value is None
