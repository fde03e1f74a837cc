"""`--config FILE`: read the flags of a command from a TOML file or from the config.json of a run.

A key is the name of a flag (`updates = 50` is `--updates 50`). Settings may also be given in the tables of config.json
([learner], [schedule], [law], ...). Models by agent go in [models], keywords of the environment in [keywords]. Flags on
the command line take precedence over the file. Values of the file are checked like flags, with the same errors for
contradictions.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from baselines.cli.environment_flags import given_keywords
from baselines.cli.settings_flags import flag, number, optional_number, optional_whole
from baselines.cli.trust_flag import add_trust_flag
from baselines.experiment.config_files import (
    REPEATED,
    SFT,
    TABLES,
    ConfigError,
    bundled,
    config_of,
    is_evaluation,
    read_file,
)
from baselines.experiment.config_trust import Uses
from baselines.experiment.environments import KEYWORDS
from baselines.experiment.experiment import SETTINGS, Experiment
from marft_agents.policies.partners import split_item
from marft_common.close_names import close_or_all

NOT_IN_FILES = ("help", "help_all", "config", "resume", "print_config", "trust_config")
JSON_FLAGS = ("dependency", "reward", "communication", "grader")  # these flags take a table as JSON text
EXCLUSIVE = (("updates", "epochs"),)  # a flag of a pair replaces either one in the file
BY_AGENT = ("model", "models")
KEYED = ("model", "env_arg", "reward_term")  # repeated flags KEY=VALUE: those given replace those of the file by key
OPTIONAL = (optional_whole, optional_number)


def add_config(parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int]) -> None:
    """Add --config and --trust-config to a command that has all its other flags; without them those must be None.

    Args:
        parser: Parser of the command.
        run: Function that runs the command; it gets the flags merged with those of the file.
    """
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="take flags from a TOML file, the config.json of a run, or one of the experiments that come with marft "
        f"(like {bundled()[0]}); flags go before it",
    )
    add_trust_flag(parser)
    parser.set_defaults(run=lambda arguments: run(with_config(arguments, parser)))


def with_config(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Return the flags, completed from their config file.

    Raises:
        ConfigError: The file cannot be read, belongs to another command, or holds an unknown key or a wrong type.
    """
    if arguments.config is None or getattr(arguments, "resume", None) is not None:
        return arguments
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    file = _Config(arguments.config, parser, _left_by(arguments, given), trust=arguments.trust_config)
    told = file.flags()
    for names in EXCLUSIVE:
        if given.keys() & names:  # --epochs beside a file with updates would be both, which is refused
            for name in names:
                told.pop(name, None)
    for name in KEYED:
        if name in told:
            told[name] = _merged(told[name], given.pop(name, []))
    return argparse.Namespace(**vars(arguments) | told | given)


def _merged(told: Sequence[str], given: Sequence[str]) -> list[str]:
    """Merge KEY=VALUE items of file and flags; a flag replaces its key, a flag without a key replaces all."""
    keys = {split_item(item)[0] for item in given}  # "*" of one without a key
    kept = [item for item in told if split_item(item)[0] not in keys]
    return [*given] if "*" in keys else [*kept, *given]


def _left_by(arguments: argparse.Namespace, given: Mapping[str, Any]) -> Uses:
    """Return the settings of a record that no flag replaces."""
    replaced = []  # places in the record, like "learner.policy_lr"
    for name in given:
        replaced.append(f"{TABLES[name]}.{name}" if name in TABLES else name)
    for name in given_keywords(arguments):
        replaced.append(f"keywords.{name}")
    for item in given.get("model", ()):
        agent = split_item(item)[0]
        replaced.append("models" if agent == "*" else f"models.{agent}")
    if "scenarios" in given:
        replaced.append("scenario_file")
    return Uses(but=replaced)


class _Config:
    """A config file read for one command.

    Args:
        name: File, run folder or bundled experiment, as in `read_file`.
        parser: Parser of the command.
        uses: The settings of a record on which the command acts.
        trust: True to act on the record of somebody else.
    """

    def __init__(self, name: str, parser: argparse.ArgumentParser, uses: Uses, *, trust: bool | None) -> None:
        self.name, self.command = name, parser.prog.split()[-1]
        self.actions = _flags_of(parser)
        self.record = self._of_this_command(read_file(name, uses, trust=trust))

    def _of_this_command(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return the record of a run or of an evaluation as a config; refuse one that belongs to another command."""
        found = record.pop("command", None)
        if is_evaluation(record):
            found = "eval"
        elif isinstance(record.get("learner"), dict) and isinstance(record.get("schedule"), dict) and found is None:
            found = SFT if record.get("algorithm") == SFT else "train"
        if found not in (None, self.command):
            raise ConfigError(
                f"{self.name} is a config of marft {found}, not of marft {self.command}{_advice(found, self.command)}"
            )
        if is_evaluation(record):
            return _evaluated(record)
        if self.name.endswith(".json") or Path(self.name).is_dir():
            return config_of(Experiment.from_dict(record, self.name)) if found == "train" else record
        return record

    def flags(self) -> dict[str, Any]:
        """Return the value of each flag that the file sets, by destination."""
        found: dict[str, Any] = {}
        for key, value in self.record.items():
            name = key.replace("-", "_")
            if name in BY_AGENT:
                self._put(found, "model", key, self._models(key, value))
            elif name == "keywords":
                self._keywords(found, value)
            elif name in SETTINGS and isinstance(value, Mapping):
                for inner, setting in value.items():
                    self._setting(found, name, inner, setting)
            elif name == "reward_term":
                self._put(found, name, key, self._texts(key, [value] if isinstance(value, str) else value))
            elif name == "env_arg":
                items = [self._item(key, *pair) for pair in value.items()] if isinstance(value, Mapping) else value
                # Beside those of [keywords], which have no flag of their own.
                self._put(found, name, key, [*found.pop(name, []), *self._texts(key, items)])
            else:
                self._setting(found, "", key, value)
        return found

    def _setting(self, found: dict[str, Any], table: str, key: str, value: Any) -> None:
        name, where = key.replace("-", "_"), f"[{table}] {key}" if table else key
        if name not in self.actions:
            self._refuse_unknown(table, key, name)
        if table and TABLES.get(name) != table:
            own = f"it belongs in [{TABLES[name]}]" if name in TABLES else "it stands at the top, in no table"
            raise ConfigError(f"{self.name}: [{table}] has no {key!r}; {own}")
        if value is not None or self.actions[name].type in OPTIONAL:
            self._put(found, name, where, self._value(where, self.actions[name], value))

    def _put(self, found: dict[str, Any], name: str, where: str, value: Any) -> None:
        if name in found:
            raise ConfigError(f"{self.name}: {where} is given twice")
        found[name] = value

    def _refuse_unknown(self, table: str, key: str, name: str) -> None:
        from baselines.cli.main import build_parser

        # Built anew: the parser of one command does not know the flags of the others.
        [commands] = [a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction)]
        for command, parser in commands.choices.items():
            if "--config" in parser._option_string_actions and name in _flags_of(parser):
                raise ConfigError(
                    f"{self.name}: {key!r} is a setting of marft {command}, not of marft {self.command}"
                    + _advice(command, self.command)
                )
        known = sorted({*self.actions, *SETTINGS, "models", "keywords", "command"})
        if table:
            known = sorted(field.name for field in dataclasses.fields(SETTINGS[table][0]))
        place = f" in [{table}]" if table else ""
        raise ConfigError(f"{self.name}: unknown key {key!r}{place}{close_or_all(name, known)}")

    def _keywords(self, found: dict[str, Any], value: Any) -> None:
        for key, keyword in self._table("keywords", value).items():
            if key in KEYWORDS and key in self.actions:
                self._setting(found, "", key, keyword)
            else:
                found["env_arg"] = [*found.get("env_arg", []), self._item("keywords", key, keyword)]

    def _models(self, key: str, value: Any) -> list[str]:
        if not isinstance(value, Mapping):
            return self._texts(key, [value] if isinstance(value, str) else value)
        models = []
        for agent, name in zip(value, self._texts(f"[{key}]", list(value.values())), strict=True):
            # The model of all is given without a key, unless its own name would then be read as AGENT=NAME.
            bare = agent == "*" and split_item(name)[0] == "*"
            models.append(name if bare else f"{agent}={name}")
        return models

    def _texts(self, where: str, value: Any) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self._refuse(where, value, "a list of texts")
        return list(value)

    def _table(self, where: str, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            self._refuse(where, value, f"a table [{where}]")
        return dict(value)

    def _value(self, where: str, action: argparse.Action, value: Any) -> Any:
        """Convert a value of the file to the type that its flag produces."""
        if action.type in OPTIONAL and value in (None, "none"):
            return "none"
        or_none = ' or "none"' if action.type in OPTIONAL else ""
        if action.nargs == "?" and isinstance(value, bool):  # the flag alone is 1
            return float(value)
        if action.type in (number, optional_number):
            return self._number(where, value, f"a finite number{or_none}")
        if action.nargs == 0:
            fits, wanted = isinstance(value, bool), "true or false"
        elif action.choices is not None:
            fits, wanted = value in list(action.choices), " or ".join(action.choices)
        elif action.type in (int, optional_whole):
            fits, wanted = type(value) is int, f"a whole number{or_none}"
        else:
            return self._text(where, action, value)
        return value if fits else self._refuse(where, value, wanted)

    def _text(self, where: str, action: argparse.Action, value: Any) -> Any:
        """Parse a text as its flag would; write tables and lists in the flag's notation first."""
        if isinstance(value, Mapping) and action.dest in (*JSON_FLAGS, "team"):
            return value if action.dest == "team" else self._json(where, value)
        single = action.type in (None, str, Path)
        if isinstance(value, list | tuple) and not single and all(type(item) in (int, str) for item in value):
            value = ",".join(map(str, value))  # the flag's notation: 0,1,2
        if not isinstance(value, str):
            self._refuse(where, value, "a text" if single else "a list")
        try:
            return action.type(value) if callable(action.type) else value
        except (argparse.ArgumentTypeError, ValueError) as error:
            raise ConfigError(f"{self.name}: {where}: {error}") from error

    def _number(self, where: str, value: Any, wanted: str) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._refuse(where, value, wanted)
        try:
            return number(str(value))
        except argparse.ArgumentTypeError:
            return self._refuse(where, value, wanted)

    def _item(self, table: str, key: str, value: Any) -> str:
        """Return a keyword of the environment as `--env-arg` takes it, KEY=JSON."""
        return f"{key}={self._json(f'[{table}] {key}', value)}"

    def _json(self, where: str, value: Any) -> str:
        """Return a value as the JSON text that its flag takes."""
        try:
            return json.dumps(value)
        except TypeError:  # TOML has dates and times
            return str(self._refuse(where, value, "no date or time, which JSON cannot hold: write it as a text"))

    def _refuse(self, where: str, value: Any, wanted: str) -> Any:
        raise ConfigError(f"{self.name}: {where}: found {value!r} ({type(value).__name__}), wanted {wanted}")


def _flags_of(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    return {a.dest: a for a in parser._actions if a.option_strings and a.dest not in NOT_IN_FILES}


def _evaluated(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config with which `marft eval` repeats an evaluation."""
    config = {name: record[name] for name in REPEATED if record.get(name) is not None}
    # A checkpoint knows its models, but not the partners that an evaluation gave by agent.
    by_agent = isinstance(record["models"], Mapping)
    if "policy" not in config and ("checkpoint" not in config or by_agent):
        config["model"] = record["models"]
    if record.get("retained"):
        config["retain"] = True
    if record.get("scenario_file") is None:
        config["limit"] = len(record["scenarios"])
    else:
        config["scenarios"] = record["scenario_file"]
    return config


def _advice(found: Any, wanted: str) -> str:
    if wanted == "eval" and found in ("train", SFT):
        return f"; to evaluate a run: marft eval {flag('env')} ID {flag('checkpoint')} RUN {flag('out')} DIR"
    if (found, wanted) == (SFT, "train"):
        return f"; to train on from it: marft train {flag('start_from')} RUN"
    return ""
