"""Search records for what must not be published: credentials, and paths of this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PureWindowsPath
from typing import Any, NamedTuple

CREDENTIAL = re.compile(
    r"\b(?:hf_\w{20,}|sk-[\w-]{20,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|AKIA[0-9A-Z]{16}"
    r"|xox[abprs]-[\w-]{10,}|AIza[\w-]{30,}|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.)|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|\b[Bb]earer\s+[\w.~+/-]{16,}"
)
URL_PASSWORD = re.compile(r"://[^/\s@]+@")
URL_TOKEN = re.compile(r"[?&](?:\w*token|\w*key|secret|password|sig|signature)=[^&\s]", re.IGNORECASE)
SECRET_NAME = re.compile(
    r"(?:^|[_-])(?:token|(?:api|access|private|secret)[_-]?key|password|passwd|secret|authorization)$", re.IGNORECASE
)
ABSOLUTE = re.compile(r"(?:[\w-]+[:=@])*(?:file://)?/[^/\s]+/")
OF_A_USER = re.compile(r"(?:/home/|/Users/|[A-Za-z]:\\Users\\)\w")
LONG_ENOUGH = 8  # characters; shorter values of the environment also occur by chance


class PrivateContent(NamedTuple):
    """A text that must not be published.

    Attributes:
        place: File and key.
        reason: Kind of the text, with a path but never a credential.
    """

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


def search(record: Any, place: str) -> list[PrivateContent]:
    """Return all private texts of a record that JSON can hold.

    Args:
        record: Mapping, list, text or number.
        place: Name of its file, for the result.
    """
    own = _secrets_of_the_environment()
    return [
        PrivateContent(where, reason) for where, name, text in _texts(record, place) for reason in _of(name, text, own)
    ]


def replaced(record: Any, replace: Callable[[str], str]) -> Any:
    """Return a record with `replace` applied to each text in it; keys stay."""
    if isinstance(record, str):
        return replace(record)
    if isinstance(record, Mapping):
        return {key: replaced(value, replace) for key, value in record.items()}
    if isinstance(record, list | tuple):
        return [replaced(value, replace) for value in record]
    return record


def _texts(record: Any, place: str, name: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield (place, last key, text) of every text."""
    if isinstance(record, str):
        yield place, name, record
    elif isinstance(record, Mapping):
        for key, value in record.items():
            yield from _texts(value, f"{place}: {key}" if not name else f"{place}.{key}", str(key))
    elif isinstance(record, list | tuple):
        for number, value in enumerate(record):
            yield from _texts(value, f"{place}[{number}]", name)


def _of(name: str, text: str, own: Mapping[str, str]) -> Iterator[str]:
    for variable, value in own.items():
        if value in text:
            yield f"the value of the environment variable {variable}"
    if CREDENTIAL.search(text) or (text.strip() and SECRET_NAME.search(name)):
        yield "a credential"
    if URL_PASSWORD.search(text) or URL_TOKEN.search(text):
        yield "a URL with a password or token"
    home = str(Path.home())
    of_home = len(home) > 1 and re.search(rf"(?<![\w.}}]){re.escape(home)}(?:/|$)", text)
    if ABSOLUTE.match(text) or PureWindowsPath(text).is_absolute() or OF_A_USER.search(text) or of_home:
        yield f"a path of this machine: {text[:200]!r}"


def _secrets_of_the_environment() -> dict[str, str]:
    """Return the values of environment variables that are named like a secret."""
    return {
        name: value
        for name, value in os.environ.items()
        if len(value) >= LONG_ENOUGH and SECRET_NAME.search(name) and not os.path.exists(value)
    }
