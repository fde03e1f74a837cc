"""Modules and functions named by import path, as flags and config files give them."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any


def search_working_directory() -> None:
    """Let imports search the working directory too, after all other places; a console script does not."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def import_failure(module: str, error: Exception) -> str:
    """Return why a module cannot be imported, and what to do where it is not found.

    Args:
        module: Name of the module, which may stand in packages, like "my_package.rewards".
        error: Raised by its import.
    """
    found = f"{module} cannot be imported ({type(error).__name__}: {error})"
    if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
        return f"{found}; install it, or start in the folder of its file"
    return found


def imported(path: str, wanted: str) -> Callable[..., Any]:
    """Import a function; the working directory is searched too, after all other places.

    Args:
        path: Import path, like "my_package.rewards:brevity".
        wanted: Description of the function for error messages, like "a function of the Episode".

    Raises:
        ValueError: The path has another form, the module cannot be imported, or it has no such function.
    """
    module, colon, names = path.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), *names.split("."))):
        raise ValueError(f"found {path!r}, wanted {wanted} as MODULE:FUNCTION")
    search_working_directory()
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:
        raise ValueError(f"{path!r}: {import_failure(module, error)}") from error
    for name in names.split("."):
        if not hasattr(found, name):
            raise ValueError(f"{path!r}: {module} has no {names}; wanted {wanted}")
        found = getattr(found, name)
    if not callable(found):
        raise ValueError(f"{path!r} is {type(found).__name__}, wanted {wanted}")
    function: Callable[..., Any] = found
    return function
