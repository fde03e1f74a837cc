"""Tests of an optional package."""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest


def needed_package(name: str, install: str) -> Any:
    """Import a package; where it is missing leave the tests of the module out, but in CI fail.

    Args:
        name: Name of the package to import.
        install: Command that installs it.
    """
    if os.environ.get("CI"):
        return importlib.import_module(name)
    return pytest.importorskip(name, reason=f"it is not installed: {install}")
