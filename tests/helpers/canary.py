"""A run of somebody else whose records name everything that acts, and probes that tell what was touched.

The command writes a file, the module writes a file, and all servers are one socket that counts connections.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from baselines.cli.main import build_parser, main

OUTPUTS = ("out", "json", "png", "save_scenarios", "dir")  # flags whose path is written
OWN_WORD = ("env_arg", "model", "team", "tools", "reward_term", "rootfs", "solutions")  # no records: a yes themselves
PLACES = ("RUN", "DIR", "FILE", "SOURCE", "OTHER", "PATH", "A B", "PLAN", "RUN|EVALUATION", "RUN|EVALUATION|BENCH")
NO_RECORDS = "envs,show,check,data list,data build,data check,new,vllm,sandbox build,sandbox check,sandbox agree"
WITHOUT_PLACE = NO_RECORDS.split(",")
WORDS = {"env": "marft/gsm8k_duo-v0", "repo": "me/theirs", "name": "theirs"}
SMALL = {"model": "tiny", "device": "cpu", "max_new_tokens": "4", "limit": "1"}
SMALL |= {"updates": "1", "groups": "1", "group_size": "2", "validate_every": "0"}
FLAGS = {"export": ["--texts"], "push": ["--dry-run"], "attribute": ["--dry-run"], "view": ["--port", "0"]}
MODULE = """
import pathlib
pathlib.Path({mark!r}).touch()

def anything(*_):
    return 0.0
"""
OWN = b"its own"


class Canary:
    """Probes, and records that name them.

    Args:
        folder: Working directory of the commands; the module lies there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commanded, self.imported = folder / "commanded", folder / "imported"
        (folder / "evil.py").write_text(MODULE.format(mark=str(self.imported)))
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.server.getsockname()[1]}"
        self.received: list[bytes] = []
        threading.Thread(target=self._count, daemon=True).start()

    def _count(self) -> None:
        with contextlib.suppress(OSError):  # it is closed
            while True:
                connection, _ = self.server.accept()
                with connection:
                    connection.settimeout(0.2)
                    try:
                        self.received.append(connection.recv(1 << 16))
                    except OSError:
                        self.received.append(b"")

    def close(self) -> None:
        """Close the socket."""
        self.server.close()
        sys.modules.pop("evil", None)

    def touched(self) -> set[str]:
        """Return what was touched since the last call."""
        with socket.create_connection(self.server.getsockname()) as connection:
            connection.sendall(OWN)
        while OWN not in self.received:  # those before it are counted too then
            time.sleep(0.001)
        found = {"command"} if self.commanded.exists() else set()
        found |= {"import"} if self.imported.exists() else set()
        found |= {"connection"} if set(self.received) != {OWN} else set()
        self.commanded.unlink(missing_ok=True)
        self.imported.unlink(missing_ok=True)
        self.received.clear()
        sys.modules.pop("evil", None)
        return found

    @property
    def command(self) -> list[str]:
        """A command that leaves a mark."""
        return ["/bin/sh", "-c", f"touch {self.commanded}"]

    @property
    def tools(self) -> dict[str, object]:
        """A tool file that runs a command, connects, and sends a variable."""
        http = {"name": "a", "description": "A.", "url": f"http://{self.address}/a", "parameters": {"type": "object"}}
        return {
            "name": "x",
            "http": [{**http, "headers_env": {"X-Api-Key": "PATH"}}],
            "mcp": [{"command": self.command, "timeout_s": 5}],
            "task": [{"id": "1", "prompt": "Do it."}],
        }

    @property
    def everything(self) -> dict[str, object]:
        """Settings of every kind, for a config.json and for an evaluation.json."""
        keywords = {
            "tools": self.tools,
            "grader": {"kind": "endpoint", "url": f"http://{self.address}", "headers_env": {"X-Api-Key": "PATH"}},
            "reward": {"mine": {"function": "evil:anything", "weight": 1.0}},
            "data": str(self.folder / "theirs.jsonl"),
            "team": str(self.folder / "team.json"),
            "judge": "unsafe",
        }
        models = {"*": "tiny", "actor_0": f"endpoint:http://{self.address}/v1#x"}
        return {"env": "evil:marft/tools_duo-v0", "keywords": keywords, "models": models}

    @property
    def of_a_run(self) -> dict[str, object]:
        """Settings of every kind that only a run has."""
        more = {"sampler": f"http://{self.address}/v1", "start_from": str(self.folder / "theirs")}
        return {**more, "replay_from": str(self.folder / "theirs.jsonl"), "rollouts": {"ray": self.address}}


def change(file: Path, changes: dict[str, object]) -> None:
    """Change entries of a JSON file; those of a table of settings are merged."""
    record = json.loads(file.read_text())
    for key, value in changes.items():
        merged = isinstance(value, dict) and key not in ("keywords", "models")
        record[key] = {**record.get(key, {}), **value} if merged else value
    file.write_text(json.dumps(record))


def plant(run: Path, canary: Canary) -> list[Path]:
    """Plant values of every kind into the records of a run; return all that a user may name."""
    change(run / "config.json", canary.everything | canary.of_a_run)
    evaluation = run / "trained" / "evaluation.json"
    named = {"endpoint": f"http://{canary.address}/v1", "scenario_file": str(run / "list.json")}
    change(evaluation, canary.everything | named)
    turns = run.parent / "turns.jsonl"
    manifest = json.loads((run.parent / "turns.jsonl.manifest.json").read_text())
    manifest["origins"] = [one | {"env": canary.everything["env"], "keywords": {}} for one in manifest["origins"]]
    (run.parent / "turns.jsonl.manifest.json").write_text(json.dumps(manifest))
    records = run.parent / "records.jsonl"
    lines = [json.loads(line)["game"] for line in (run / "trained" / "episodes.jsonl").read_text().splitlines()]
    records.write_text("".join(json.dumps({**line, "env_id": canary.everything["env"]}) + "\n" for line in lines))
    return [run, run / "config.json", evaluation.parent, evaluation, turns, records]


# ------------------------------------------------------------------ commands


class Leaf(NamedTuple):
    """A command, or an action of one.

    Attributes:
        name: Its words, like "data mine".
        parser: Its parser.
        places: Flags and positionals that may name a record.
    """

    name: str
    parser: argparse.ArgumentParser
    places: Sequence[argparse.Action]


def leaves(command: str) -> list[Leaf]:
    """Return a command of `COMMANDS`, or all its actions."""

    def below(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> Iterator[Leaf]:
        inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        for name, one in inner[0].choices.items() if inner else ():
            yield from below(one, (*words, name))
        if not inner:
            name = " ".join(words)
            yield Leaf(name, parser, [action for action in parser._actions if _is_place(action, name)])

    [commands] = [action for action in build_parser([command])._actions if action.dest == "command"]
    return list(below(commands.choices[command], (command,)))


def _is_place(action: argparse.Action, name: str) -> bool:
    if (
        action.nargs == 0
        or action.dest in (*OUTPUTS, *OWN_WORD)
        or (action.dest == "scenarios" and name == "data mine")
    ):
        return False
    return action.type is Path or action.metavar in PLACES


def _word(action: argparse.Action, folder: Path) -> str:
    if action.choices:
        return str(list(action.choices)[-1])
    return str(folder / "out") if action.dest in OUTPUTS else (WORDS | SMALL).get(action.dest, str(folder / "nothing"))


def invocations(leaf: Leaf, records: Sequence[Path], folder: Path) -> Iterator[list[str]]:
    """Yield command lines that name each record in each place of a command.

    Args:
        leaf: The command.
        records: Paths of the records.
        folder: Folder for outputs, which do not exist yet.
    """
    groups = [one._group_actions[0] for one in leaf.parser._mutually_exclusive_groups if one.required]
    needed = [action for action in leaf.parser._actions if action.required and action.nargs != 0]
    own = ("env", "out", *(SMALL if leaf.name in ("train", "sft", "eval") else ()))
    wanted = [action for action in leaf.parser._actions if action.dest in own and action not in needed]
    for place in leaf.places:
        for record in records:
            for more in ([], wanted) if wanted else ([],):
                words = [*leaf.name.split(), *FLAGS.get(leaf.name, ()), *(one.option_strings[0] for one in groups)]
                for action in dict.fromkeys([*needed, *more, place]):
                    value = str(record) if action is place else _word(action, folder)
                    twice = [value, value] if action.metavar == "A B" else [value]
                    words += [action.option_strings[-1], *twice] if action.option_strings else twice
                yield words


def error_of(words: Sequence[str]) -> str:
    """Run a command; return what it says on standard error."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as told:  # child processes write there too
        with contextlib.redirect_stderr(told), contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            main(list(words))
        told.seek(0)
        return told.read()


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
