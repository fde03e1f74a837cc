"""Entry point of the `marft` command: exit code 1 and one line on standard error for bad input, 2 for bad usage.

Set MARFT_DEBUG=1 to see the traceback behind an error.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from baselines import scaffold
from baselines.cli import compare, inspection, play, sandbox
from baselines.cli import label_agreement as grade_agreement

LAZY_COMMANDS = {  # these load torch
    "train": "baselines.cli.train",
    "eval": "baselines.cli.evaluate",
    "attribute": "baselines.cli.attribute",
    "bench": "baselines.cli.bench",
}
LIGHT_COMMANDS = ("envs", "show", "check", "data", "play", "grade-agreement", "sandbox", "new", "compare")
AGENT_PACKAGES = {"torch", "transformers", "peft", "safetensors", "gguf", "tensorboard", "matplotlib", "tomli_w"}


class Parser(argparse.ArgumentParser):
    """Argument parser without abbreviated flags, also for subcommands.

    An abbreviation that a script uses would become ambiguous when a new flag is added.
    """

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**{"allow_abbrev": False} | keywords)


def build_parser(commands: Sequence[str] = tuple(LAZY_COMMANDS)) -> argparse.ArgumentParser:
    """Build the parser of the whole command line.

    Args:
        commands: Names from `LAZY_COMMANDS` to add; each of them imports torch.
    """
    parser: argparse.ArgumentParser = Parser(
        prog="marft",
        description="Train, evaluate and look at teams of language-model agents.",
        epilog="marft COMMAND --help says more.",
    )
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    inspection.add_parsers(subparsers)
    play.add_parser(subparsers)
    grade_agreement.add_parser(subparsers)
    compare.add_parser(subparsers)
    sandbox.add_parser(subparsers)
    scaffold.add_parser(subparsers)
    for name, module in LAZY_COMMANDS.items():
        if name in commands:
            importlib.import_module(module).add_parser(subparsers)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    light = bool(given) and given[0] in LIGHT_COMMANDS

    def work() -> int:
        parsed = build_parser(() if light else tuple(LAZY_COMMANDS)).parse_args(given)
        return int(parsed.run(parsed))

    return guarded(work)


def guarded(work: Callable[[], int]) -> int:
    """Call `work` and return its exit code; report an input error as one line on standard error with exit code 1.

    The exit code is 130 after Ctrl-C and 141 after a closed pipe. Errors that point to a bug keep their traceback, as
    do all errors where MARFT_DEBUG is set.
    """
    try:
        return work()
    except KeyboardInterrupt:
        print("marft: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python reports the closed pipe at exit
        return 141
    except Exception as error:
        if os.environ.get("MARFT_DEBUG") or _is_ours(error):
            raise
        print(f"marft: error: {_message(error)}", file=sys.stderr)
        return 1


def _is_ours(error: Exception) -> bool:
    """Return True for errors that no input should cause."""
    return isinstance(error, AssertionError | AttributeError | NameError | NotImplementedError)


def _message(error: Exception) -> str:
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    if isinstance(error, ModuleNotFoundError) and error.name in AGENT_PACKAGES:
        text += "; training and evaluation need: pip install 'marft[agents]'"
    return text or type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
