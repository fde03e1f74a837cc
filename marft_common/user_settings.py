"""Settings that users give in TOML files and environment variables, read with errors that say what to do."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file.

    Raises:
        ValueError: It cannot be read, or is no TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # no UTF-8, or no TOML
        raise ValueError(f"{path} is no TOML: {error}") from error


def headers_from_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return headers with the values of the environment variables that hold them.

    Args:
        variables: Name of the variable by header.

    Raises:
        ValueError: A variable is not set.
    """
    if unset := [name for name in variables.values() if name not in os.environ]:
        raise ValueError(f"headers_env: the environment variable {unset[0]} is not set")
    return {header: os.environ[name] for header, name in variables.items()}
