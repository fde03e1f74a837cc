"""The line of the user's own code behind an error, which the frames of libraries hide."""

from __future__ import annotations

import sys
import traceback
from contextlib import suppress
from pathlib import Path

_LIBRARIES = frozenset({"marft_envs", "marft_common", "marft_agents", "baselines", "pettingzoo", "gymnasium"})


def user_line(error: BaseException) -> str:
    """Return "file:line, in function" of the innermost frame that is not a library's; empty if there is none."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if is_own(frame.f_globals.get("__name__", ""), frame.f_code.co_filename):
            return f"{shown(frame.f_code.co_filename)}:{line}, in {frame.f_code.co_name}"
    return ""


def is_own(module: str, path: str = "") -> bool:
    """Return True for a module of neither ours nor the standard library nor an installed package.

    Args:
        module: Name of the module.
        path: Its file, if that is known.
    """
    package = module.partition(".")[0]
    if package in _LIBRARIES or package in sys.stdlib_module_names:
        return False
    return not path.startswith("<") and "site-packages" not in Path(path).parts


def shown(path: str) -> str:
    """Return a path relative to the working directory where it lies below, else the name of the file.

    Causes of failures are kept in records, which are given away: no other folders of the user's are named there.
    """
    given = Path(path)
    with suppress(OSError):  # the working directory may be gone
        if given.is_relative_to(Path.cwd()):
            return str(given.relative_to(Path.cwd()))
    return given.name
