"""Scaffold of `marft new`: a package with an example environment that installs, passes the conformance kit and trains.

The files are copied from `template/`. The package's name replaces `PACKAGE` in file names and `$name` in texts.
"""

from __future__ import annotations

import importlib.util
import keyword
import os
import re
import runpy
import shutil
from collections.abc import Iterator
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from string import Template

import marft_envs

MAX_NAME_CHARS = 40
TEAMS = ("solo", "duo")


class ScaffoldError(ValueError):
    """Unusable package name or folder; the message says what to do."""


def create(name: str, parent: Path, namespace: str = "my") -> Path:
    """Create the package atomically: under a temporary name first, then renamed.

    Args:
        name: Name of the package, its folder and its task.
        parent: Folder to create the package in; created if missing.
        namespace: Namespace of the environment ids.

    Returns:
        The folder of the package.

    Raises:
        ScaffoldError: The name or the namespace cannot be used, or the folder exists or cannot be written.
    """
    check_spelling(name, namespace)
    target = parent.expanduser() / name
    if target.exists():  # first: Python takes a folder of that name here for a package
        raise ScaffoldError(f"{target} exists already; choose another name or another --dir")
    check_free(name, namespace)
    temporary = target.with_name(f".{name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _fill(temporary, name, namespace)
        temporary.rename(target)
    except OSError as error:
        raise ScaffoldError(f"{target} cannot be written ({error.strerror}); give another --dir") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def check_spelling(name: str, namespace: str) -> None:
    """Refuse a name or a namespace that is invalid.

    Raises:
        ScaffoldError: The name or the namespace cannot be used.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name) or len(name) > MAX_NAME_CHARS:
        raise ScaffoldError(
            f"NAME {name!r}: wanted a Python name of a-z, 0-9 and _, at most {MAX_NAME_CHARS} long, like word_games"
        )
    if not re.fullmatch(r"[a-zA-Z][\w-]*", namespace, re.ASCII) or namespace == "marft":
        raise ScaffoldError(f"--namespace {namespace!r}: wanted a word like 'my'; 'marft' is taken by the suite")


def check_free(name: str, namespace: str) -> None:
    """Refuse the name of a registered task or of an installed package.

    Raises:
        ScaffoldError: The name cannot be used.
    """
    taken = [
        id for id in marft_envs.envs() if marft_envs.spec(id).task == name or id.startswith(f"{namespace}/{name}_")
    ]
    if taken:
        raise ScaffoldError(f"NAME {name!r}: a task of that name is registered ({', '.join(taken)}); choose another")
    if importlib.util.find_spec(name) is not None or _is_installed(name):
        raise ScaffoldError(f"NAME {name!r}: a package of that name is installed; choose another")


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _fill(folder: Path, name: str, namespace: str) -> None:
    class_name = "".join(part.capitalize() for part in name.split("_"))
    words = {"name": name, "namespace": namespace, "class_name": class_name}
    for path, template in _files(resources.files(__name__).joinpath("template"), PurePosixPath()):
        file = folder / str(path).removesuffix(".txt").replace("PACKAGE", name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(Template(template.read_text(encoding="utf-8")).substitute(words), encoding="utf-8")
    runpy.run_path(str(folder / "src" / name / "make_data.py"), run_name="__main__")


def _files(folder: Traversable, path: PurePosixPath) -> Iterator[tuple[PurePosixPath, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _files(entry, path / entry.name)
        else:
            yield path / entry.name, entry
