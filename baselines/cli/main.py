"""Entry point of the `marft` command: exit code 1 and one line on standard error for bad input, 2 for bad usage.

Set MARFT_DEBUG=1 to see the traceback behind an error.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from baselines.cli.terminal import guard_warnings_and_tracebacks, say
from marft_common.import_paths import search_working_directory
from marft_common.visible_text import visible


class Command(NamedTuple):
    """A command of the table.

    Attributes:
        flags: MODULE:FUNCTION that adds the flags of the command to its parser. It is imported when the command is
            chosen, so `marft --help` and the other commands do not load what this one needs.
        help: One line for `marft --help`.
    """

    flags: str
    help: str


COMMANDS: Mapping[str, Command] = {
    "envs": Command("baselines.cli.inspection:add_envs_flags", "list the registered environments"),
    "show": Command(
        "baselines.cli.inspection:add_show_flags", "show an environment: prompts, dependency function, reward"
    ),
    "check": Command("baselines.cli.inspection:add_check_flags", "run the conformance kit on an environment"),
    "data": Command("baselines.cli.data:add_actions", "embedded data sets; training data and tasks of recordings"),
    "play": Command("baselines.cli.play:add_flags", "play one episode and print it"),
    "new": Command("baselines.cli.new:add_flags", "make a package with an environment of your own"),
    "train": Command("baselines.cli.train:add_flags", "train a team of language models on an environment"),
    "sft": Command("baselines.cli.sft:add_flags", "fine-tune a team on recorded turns, as a start for train"),
    "eval": Command("baselines.cli.evaluate:add_flags", "evaluate a team on a fixed list of scenarios"),
    "bench": Command("baselines.cli.bench:add_flags", "compare teams with one agent at equal tokens, over seeds"),
    "attribute": Command(
        "baselines.cli.attribute:add_flags", "measure the contribution of each agent of a trained team"
    ),
    "serve": Command("baselines.cli.serve:add_flags", "serve a trained team: the OpenAI API, or A2A"),
    "vllm": Command("baselines.cli.vllm:add_flags", "start a vLLM server for train --sampler URL"),
    "compare": Command("baselines.cli.compare:add_flags", "paired difference of two teams, with a gate for CI"),
    "export": Command("baselines.cli.export:add_flags", "write the episodes of a run or an evaluation to a file"),
    "push": Command("baselines.cli.push:add_flags", "publish a trained team on the Hugging Face Hub"),
    "report": Command("baselines.cli.report:add_flags", "write a run, an evaluation or a benchmark as one HTML file"),
    "view": Command("baselines.cli.view:add_flags", "show runs in the browser while they train"),
    "grade-agreement": Command("baselines.cli.label_agreement:add_flags", "Cohen's kappa of a grader and people"),
    "sandbox": Command("baselines.cli.sandbox:add_actions", "build and check the judge's sandbox"),
}
AGENT_PACKAGES = {"torch", "transformers", "peft", "safetensors", "gguf", "tensorboard", "matplotlib", "tomli_w"}


class Parser(argparse.ArgumentParser):
    """Argument parser without abbreviated flags, also for subcommands.

    An abbreviation that a script uses would become ambiguous when a new flag is added.
    """

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**{"allow_abbrev": False} | keywords)


def build_parser(commands: Collection[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """Build the parser of the whole command line.

    Args:
        commands: Names from `COMMANDS` whose modules are imported and whose flags are added; the others have only
            their line of help.
    """
    parser: argparse.ArgumentParser = Parser(
        prog="marft",
        description="Train, evaluate and look at teams of language-model agents.",
        epilog="marft COMMAND --help says more.",
    )
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        own = subparsers.add_parser(name, help=command.help)
        if name in commands:
            module, _, function = command.flags.partition(":")
            getattr(importlib.import_module(module), function)(own)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    guard_warnings_and_tracebacks()
    search_working_directory()  # for environments named MODULE:ID

    def work() -> int:
        parsed = build_parser(given[:1]).parse_args(given)  # the command comes first: marft itself has no flags
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
        say("marft: interrupted", error=True)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python reports the closed pipe at exit
        return 141
    except Exception as error:
        if os.environ.get("MARFT_DEBUG") or _is_ours(error):
            raise
        say(f"marft: error: {visible(_message(error), lines=False)}", error=True)
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
