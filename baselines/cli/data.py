"""`marft data`: list, rebuild or check the embedded sets; make training data, tasks or a comparison of recordings."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.table import Table

import envs_data
import marft_envs
from baselines.cli.environment_flags import add_environment_flags, read_keywords
from baselines.cli.settings_flags import seed
from baselines.cli.terminal import say
from baselines.cli.trust_flag import add_trust_flag
from baselines.results.visible_console import console
from baselines.training_data import from_runs, mining
from baselines.training_data.conditions import Condition
from baselines.training_data.recordings import Recording, read_recording
from baselines.training_data.scrubbing import Scrubber
from baselines.training_data.turn_file import HELD_OUT, TRAIN, write_turns
from marft_agents.runs.run_folder import write_json

SOURCE = "run, evaluation, .jsonl or .parquet records, or OTLP JSON spans; several may be given"


def add_actions(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `marft data`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listed = actions.add_parser("list", help="list the embedded data sets")
    listed.add_argument("--json", action="store_true", help="list as JSON")
    listed.set_defaults(run=list_sets)
    actions.add_parser("build", help="rebuild them, in a checkout of the repository").set_defaults(run=build_sets)
    actions.add_parser("check", help="compare them with their manifest").set_defaults(run=check_sets)

    turns = actions.add_parser("from-runs", help="make a file of supervised examples for marft sft")
    _add_recordings(turns, where="success", chosen="episodes to take")
    turns.add_argument("--out", type=Path, required=True, metavar="FILE", help="file to write, JSON Lines")
    turns.add_argument(
        "--held-out", type=float, default=0.1, metavar="SHARE", help="share of the scenarios held out (default: 0.1)"
    )
    turns.add_argument("--seed", type=seed, default=0, help="of the split (default: 0)")
    turns.add_argument(
        "--allow-split",
        action="append",
        metavar="NAME",
        help="also take episodes whose tasks are of this split; may be repeated (default: train alone)",
    )
    turns.add_argument("--model", metavar="MODEL", help="also scrub the special tokens of this model's tokenizer")
    turns.set_defaults(run=make_turns)

    mined = actions.add_parser("mine", help="make tasks of failed episodes")
    _add_recordings(mined, where=mining.FAILED, chosen="episodes whose tasks are taken")
    mined.add_argument("--out", type=Path, metavar="FILE", help="rows for --data of an environment, JSON Lines")
    mined.add_argument("--scenarios", type=Path, metavar="FILE", help="scenario list for marft eval --scenarios")
    mined.set_defaults(run=mine_tasks)

    shadow = actions.add_parser("shadow", help="make recorded outcomes one side of marft compare")
    _add_recordings(shadow, where="True", chosen="episodes to compare with")
    shadow.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder for evaluation.json and scenarios.json"
    )
    shadow.set_defaults(run=make_shadow)


def _add_recordings(parser: argparse.ArgumentParser, *, where: str, chosen: str) -> None:
    parser.add_argument("recordings", nargs="+", type=Path, metavar="SOURCE", help=SOURCE)
    parser.add_argument(
        "--where",
        type=str,
        default=where,
        metavar="CONDITION",
        help=f'{chosen}, like "success and not violation" (default: {where})',
    )
    parser.add_argument("--env", metavar="ID", help="environment that lists the tasks of spans")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="refuse files with spans that cannot be used, instead of leaving those out",
    )
    add_environment_flags(parser)
    add_trust_flag(parser)


def _read(arguments: argparse.Namespace) -> list[Recording]:
    """Read all recordings that a command was given, and tell what was left out of them."""

    def make(env_id: str) -> tuple[Mapping[str, Any], Any]:
        keywords = read_keywords(argparse.Namespace(**{**vars(arguments), "env": env_id}))
        return keywords, marft_envs.make(env_id, **keywords)

    recordings = []
    for path in arguments.recordings:
        recording = read_recording(path, make, arguments.env, strict=arguments.strict, trust=arguments.trust_config)
        recordings.append(recording)
    for recording in recordings:  # after all were read: an error in a later one is not lost among notes
        if recording.left_out:
            reasons = ", ".join(f"{count} {reason}" for reason, count in recording.left_out.items())
            say(f"{recording.path}: left out: {reasons}")
    return recordings


# ------------------------------------------------------------------ embedded sets


def list_sets(arguments: argparse.Namespace) -> int:
    """Run `marft data list`."""
    manifest = envs_data.manifest()
    if arguments.json:
        say(json.dumps(manifest, indent=1))
        return 0
    table = Table("name", "rows", "licence", "description")
    for name, entry in manifest.items():
        rows = ", ".join(f"{split} {found['rows']}" for split, found in entry["splits"].items())
        table.add_row(name, rows, entry["licence"], entry["description"])
    console().print(table)
    return 0


def build_sets(arguments: argparse.Namespace) -> int:
    """Run `marft data build`."""
    if find_spec("envs_data.build") is None:
        found, wanted = "an installed package, which has no generators", "a checkout of the repository"
        raise envs_data.DataError("envs_data.build", found, wanted, "run `make data` in one")
    from envs_data.build.__main__ import main as build

    build([])
    return 0


def check_sets(arguments: argparse.Namespace) -> int:
    """Run `marft data check`; return 0 if all sets match their manifest, else 1."""
    problems = envs_data.check()
    say("\n".join(problems) if problems else f"{len(envs_data.names())} data sets match their manifest")
    return 1 if problems else 0


# ------------------------------------------------------------------ recordings


def make_turns(arguments: argparse.Namespace) -> int:
    """Run `marft data from-runs`."""
    where = Condition.read(arguments.where)
    if not 0 <= arguments.held_out < 1:
        raise ValueError(f"--held-out {arguments.held_out}: wanted a share in [0, 1)")
    _refuse_existing(arguments.out)
    scrubber = Scrubber(_symbols(arguments.model))
    recordings = _read(arguments)
    found = from_runs.build(
        recordings,
        where,
        splits=(TRAIN, *(arguments.allow_split or ())),
        held_out=arguments.held_out,
        seed=arguments.seed,
        scrubber=scrubber,
    )
    write_turns(arguments.out, found.examples, found.manifest, own=all(one.own for one in recordings))
    manifest = found.manifest
    table = Table("agent", "turns to train on", "held out")
    for agent, counts in manifest["examples"].items():
        table.add_row(agent, str(counts[TRAIN]), str(counts[HELD_OUT]))
    console().print(table)
    scenarios, tokens = manifest["scenarios"], manifest["control_tokens"]
    say(
        f"{arguments.out}: {len(found.examples)} turns of {manifest['episodes']} episodes; "
        f"{scenarios[TRAIN]} scenarios to train on, {scenarios[HELD_OUT]} held out; "
        f"left out: {manifest['duplicates']} duplicates, {manifest['empty']} empty"
    )
    say(
        f"scrubbed: {_kinds(scrubber)}; control tokens: {tokens['prompts']} in prompts, "
        f"{tokens['completions']} in actions"
    )
    return 0


def _symbols(model: str | None) -> list[str]:
    """Return the special tokens of a model, which a recorded text must not spell out."""
    if model is None:
        return []
    from marft_agents.models.chat_template import control_symbols
    from marft_agents.models.pretrained import load_tokenizer

    return control_symbols(load_tokenizer(model))


def _kinds(scrubber: Scrubber) -> str:
    return ", ".join(f"{kind} ({count})" for kind, count in sorted(scrubber.secrets.items())) or "no credentials found"


def mine_tasks(arguments: argparse.Namespace) -> int:
    """Run `marft data mine`."""
    where = Condition.read(arguments.where)
    if arguments.out is None and arguments.scenarios is None:
        raise ValueError("marft data mine needs --out FILE, --scenarios FILE, or both")
    for path in (arguments.out, arguments.scenarios):
        if path is not None:
            _refuse_existing(path)
    recordings = _read(arguments)
    if arguments.out is not None:
        scrubber = Scrubber()
        mined = mining.mine(recordings, where, scrubber)
        mining.write_rows(arguments.out, mined.rows)
        bare = f"; {mined.without_gold} lack a gold answer: fill in the column answer" if mined.without_gold else ""
        say(f"{arguments.out}: {len(mined.rows)} tasks; scrubbed: {_kinds(scrubber)}{bare}")
    if arguments.scenarios is not None:
        scenarios = mining.failed_scenarios(recordings, where)
        scenarios.write(arguments.scenarios)
        say(f"{arguments.scenarios}: {len(scenarios.scenarios)} scenarios")
    return 0


def make_shadow(arguments: argparse.Namespace) -> int:
    """Run `marft data shadow`."""
    where = Condition.read(arguments.where)
    file, listed = arguments.out / "evaluation.json", arguments.out / "scenarios.json"
    _refuse_existing(file)
    recordings = _read(arguments)
    found = mining.shadow(recordings, where)
    found.scenarios.write(listed)
    write_json(file, found.record, own=all(one.own for one in recordings))
    low, high = found.record["interval_95"]
    say(
        f"{file}: {len(found.scenarios.scenarios)} recorded scenarios, success {found.record['accuracy']:.3f} "
        f"[{low:.3f}, {high:.3f}]; play the candidate with marft eval --scenarios {listed}, then marft compare "
        f"{arguments.out} CANDIDATE"
    )
    return 0


def _refuse_existing(path: Path) -> None:
    """Refuse to overwrite a file: training data or tasks made before may be in use."""
    if path.exists():
        raise ValueError(f"{path} exists already: give another --out, or remove it")
