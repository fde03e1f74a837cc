"""Entry point of the `marft` command: exit code 1 and one line on standard error for bad input, 2 for bad usage.

Set MARFT_DEBUG=1 to see the traceback behind an error.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import baselines
from baselines.cli.short_help import PAGES
from baselines.cli.terminal import guard_warnings_and_tracebacks, say
from marft_common.close_names import did_you_mean
from marft_common.import_paths import search_working_directory
from marft_common.installation import pip_install
from marft_common.visible_text import visible


class Command(NamedTuple):
    """A command of the table.

    Attributes:
        flags: MODULE:FUNCTION that adds the flags of the command to its parser. It is imported when the command is
            chosen, so `marft --help` and the other commands do not load what this one needs.
        help: One line for `marft --help`.
        loads_torch: True if importing the module imports torch, which takes seconds and is said first.
    """

    flags: str
    help: str
    loads_torch: bool = False


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
    "sft": Command("baselines.cli.sft:add_flags", "fine-tune a team on recorded turns, as a start for train", True),
    "eval": Command("baselines.cli.evaluate:add_flags", "evaluate a team on a fixed list of scenarios"),
    "bench": Command("baselines.cli.bench:add_flags", "compare teams with one agent at equal tokens, over seeds", True),
    "attribute": Command(
        "baselines.cli.attribute:add_flags", "measure the contribution of each agent of a trained team", True
    ),
    "serve": Command("baselines.cli.serve:add_flags", "serve a trained team: the OpenAI API, or A2A", True),
    "vllm": Command("baselines.cli.vllm:add_flags", "start a vLLM server for train --sampler URL", True),
    "compare": Command("baselines.cli.compare:add_flags", "paired difference of two teams, with a gate for CI"),
    "export": Command("baselines.cli.export:add_flags", "write the episodes of a run or an evaluation to a file"),
    "push": Command("baselines.cli.push:add_flags", "publish a trained team on the Hugging Face Hub", True),
    "report": Command("baselines.cli.report:add_flags", "write a run, an evaluation or a benchmark as one HTML file"),
    "view": Command("baselines.cli.view:add_flags", "show runs in the browser while they train"),
    "grade-agreement": Command("baselines.cli.label_agreement:add_flags", "Cohen's kappa of a grader and people"),
    "sandbox": Command("baselines.cli.sandbox:add_actions", "build and check the judge's sandbox"),
}
AGENT_PACKAGES = {"torch", "transformers", "peft", "safetensors", "gguf", "tensorboard", "matplotlib", "tomli_w"}


class Parser(argparse.ArgumentParser):
    """Argument parser without abbreviated flags that names what is close to an unknown flag or choice.

    An abbreviation that a script uses would become ambiguous when a new flag is added.
    """

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**{"allow_abbrev": False} | keywords)
        self._given: list[str] = []

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse the arguments; refuse unknown flags here, where the flags of the command are known."""
        self._given = list(sys.argv[1:] if args is None else args)
        found, left = super().parse_known_args(args, namespace)
        if left:
            self.error(self._unrecognized(left))
        return found, left

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)  # where argparse makes its message
        except argparse.ArgumentError as error:
            if action.type is int:
                raise argparse.ArgumentError(action, f"found {arg_string!r}, wanted a whole number") from None
            raise error

    def error(self, message: str) -> NoReturn:
        """End with exit code 2. An unknown flag is told before arguments that are missing, perhaps because of it."""
        flags = [text for text in self._given if text[:1] == "-" and text.partition("=")[0] not in self._known]
        super().error(self._unrecognized(flags) if flags and "arguments are required" in message else message)

    @property
    def _known(self) -> dict[str, str]:
        return {name: action.help or "" for name, action in self._option_string_actions.items()}

    def _unrecognized(self, arguments: Sequence[str]) -> str:
        wrong = next((text for text in arguments if text.startswith("--")), "").partition("=")[0]
        known = {name: told for name, told in self._known.items() if name.startswith("--")}
        if not wrong and "--env" in known and "/" in arguments[0]:
            return f"found {arguments[0]!r} without a flag; did you mean --env {arguments[0]}?"
        return f"unrecognized arguments: {' '.join(arguments)}" + did_you_mean(wrong, known, known, cutoff=0.7)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            flags = self._known if isinstance(action, argparse._SubParsersAction) else {}  # `marft help`
            known = dict.fromkeys([*map(str, action.choices or ()), *flags])
            raise argparse.ArgumentError(action, error.message + did_you_mean(str(value), known, cutoff=0.7)) from None


class _Version(argparse.Action):
    """Prints the version, which is looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        say(f"marft {baselines.__version__}")
        parser.exit()


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
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        own = subparsers.add_parser(name, help=command.help)
        if name in PAGES:  # 90 lines of usage would hide the error below them
            own.usage = f"marft {name} [FLAGS], see marft {name} --help"
            own.add_argument("--help-all", action="help", help="show this help, with all flags, and exit")
        if name in commands:  # `marft show` must not wait for what `marft train` imports
            module, _, function = command.flags.partition(":")
            getattr(importlib.import_module(module), function)(own)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    guard_warnings_and_tracebacks()
    search_working_directory()  # for environments named MODULE:ID

    def work() -> int:
        if not given:
            build_parser(()).print_help()
            return 0
        name = given[0]  # the command comes first: flags of marft itself end it
        if name in PAGES and {"-h", "--help"} & set(given):
            say(PAGES[name], end="")
            return 0
        if name in COMMANDS and COMMANDS[name].loads_torch and "torch" not in sys.modules:
            say("loading torch ...", error=True, flush=True)
        parsed = build_parser([name]).parse_args(given)
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
    # A `KeyError` shows its argument in quotes, as if it were a key, also where that is a sentence.
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    if isinstance(error, ModuleNotFoundError) and error.name in AGENT_PACKAGES:
        text += f"; training and evaluation need: {pip_install('agents')}"
    return text or type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
