"""Copies of installed packages, whose files a test can change."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

from envs_data.packages import Package


def copied_package(package: Package, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy a package to a folder and put the copy in place of the installed one.

    Args:
        package: Package to copy; it has to be installed.
        folder: Folder of the copy, first in `sys.path` until the end of the test.
        monkeypatch: Fixture of the test.

    Returns:
        Folder of the copied module.
    """
    found = importlib.util.find_spec(package.module)
    assert found is not None
    assert found.submodule_search_locations
    copy = folder / package.module
    ignored = shutil.ignore_patterns("__pycache__", "unused_datasets", "codeio-hq*")
    shutil.copytree(found.submodule_search_locations[0], copy, ignore=ignored)
    info = folder / f"{package.module}-{package.version}.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {package.name}\nVersion: {package.version}\n")
    monkeypatch.delitem(sys.modules, package.module, raising=False)  # `find_spec` prefers an imported module
    monkeypatch.syspath_prepend(folder)
    return copy


def flip_byte(file: Path) -> bytes:
    """Change one bit in the middle of a file, and return its content before."""
    content = file.read_bytes()
    place = len(content) // 2
    file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    return content
