"""Print the texts of commands: text of data and models never reaches a terminal raw."""

from __future__ import annotations

import contextlib
import shlex
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from marft_common.visible_text import visible


def say(*texts: object, sep: str = " ", end: str = "\n", error: bool = False, flush: bool = False) -> None:
    """Print texts as `print` does, with everything escaped that a terminal would obey.

    Args:
        texts: Values to print.
        sep: Text between two of them.
        end: Text after the last one.
        error: True prints to standard error.
        flush: True writes at once.
    """
    print(visible(sep.join(map(str, texts))), end=end, file=sys.stderr if error else sys.stdout, flush=flush)


def say_loading(models: Iterable[str]) -> None:
    """Say on standard error which models are loaded next, see `loading`."""
    # Not above: every command imports this module, and few of them load models.
    from baselines.experiment.progress import loading

    if told := loading(models):
        say(told, error=True, flush=True)


@contextlib.contextmanager
def stoppable(command: Sequence[str], begun: Path) -> Iterator[None]:
    """Name the command that goes on where Ctrl-C stops the work inside.

    Args:
        command: Words of the command.
        begun: File that exists once there is something to go on with.
    """
    try:
        yield
    except KeyboardInterrupt:
        if begun.is_file():  # else there is nothing to go on with, and the same command begins again
            say(f"stopped; go on with: {shlex.join(command)}", error=True)
        raise


def guard_warnings_and_tracebacks() -> None:
    """Escape the texts of warnings and of errors that end this process."""
    warnings.formatwarning = _visible_warning
    sys.excepthook = _print_traceback


_format_warning = warnings.formatwarning


def _visible_warning(*given: Any, **named: Any) -> str:
    return visible(_format_warning(*given, **named))


def _print_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.stderr.write(visible("".join(traceback.format_exception(kind, error, trace))))
