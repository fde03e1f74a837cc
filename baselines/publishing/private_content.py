"""Search records for what must not be published: credentials, and paths of this machine."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PureWindowsPath
from typing import Any, NamedTuple

from baselines.experiment.credentials import OF_A_URL, credentials_in, names_a_password, names_a_secret

# A name and its value in JSON that stands in a text, however often it was escaped, or in a Python literal.
PAIR = re.compile(r"""["'](?P<name>[A-Za-z][\w -]{0,63})\\*["']\s*:\s*(?:\\*["'](?P<text>[^"'\\]+)|(?P<number>\d+))""")
ESCAPED = re.compile(r"\\{1,9}u00([2-7][0-9a-fA-F])")  # a printable character of ASCII
HEADER = re.compile(r"(?:proxy-)?authorization|x(?:-[a-z]+)*-(?:key|token|secret)|api-key", re.IGNORECASE)
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


class _Text(NamedTuple):
    """A text or number of a record.

    Attributes:
        place: File and keys.
        value: The text, or the number as text.
        secret: True if it stands under a name that says so.
    """

    place: str
    value: str
    secret: bool


def search(record: Any, place: str) -> list[PrivateContent]:
    """Return all private texts of a record that JSON can hold: values, keys, and JSON inside of texts.

    Args:
        record: Mapping, list, text or number.
        place: Name of its file, for the result.
    """
    own = _secrets_of_the_environment()
    found = [PrivateContent(text.place, reason) for text in _texts(record, place, own) for reason in _of(text, own)]
    return list(dict.fromkeys(found))  # a text that is JSON is searched as a text too


def replaced(record: Any, replace: Callable[[str], str]) -> Any:
    """Return a record with `replace` applied to each text in it; keys stay."""
    if isinstance(record, str):
        return replace(record)
    if isinstance(record, Mapping):
        return {key: replaced(value, replace) for key, value in record.items()}
    if isinstance(record, list | tuple):
        return [replaced(value, replace) for value in record]
    return record


def _texts(record: Any, place: str, own: Mapping[str, str]) -> Iterator[_Text]:
    """Yield every text, every key, and every number that a name makes a secret, in their order."""
    waiting: list[tuple[str, Any, str, bool]] = [(place, record, "", False)]  # place, value, last key, secret
    while waiting:
        where, value, name, secret = waiting.pop()
        if isinstance(value, str):
            yield _Text(where, value, secret)
            inner = [(where, _parsed(value), name, secret)]
        elif isinstance(value, Mapping):
            secret = secret and not _is_schema(value)
            # `headers_env` has names of variables as its values
            named = set() if name.endswith("_env") else _named_values(value)
            inner = []
            for number, (key, one) in enumerate(value.items(), start=1):
                yield _Text(f"{where}: key {number}", key, False)
                shown = f"key {number}" if next(_secrets(key, own), None) else key
                below = f"{where}: {shown}" if where == place else f"{where}.{shown}"
                inner.append((below, one, key, secret or key in named))
        elif isinstance(value, list | tuple):
            is_header = len(value) == 2 and isinstance(value[0], str) and HEADER.fullmatch(value[0]) is not None
            inner = [(f"{where}[{i}]", one, name, secret or (is_header and i == 1)) for i, one in enumerate(value)]
        else:
            inner = []
            if secret and isinstance(value, int) and not isinstance(value, bool) and names_a_password(name):
                yield _Text(where, str(value), True)
        waiting += reversed(inner)


def _named_values(record: Mapping[str, Any]) -> set[str]:
    """Return the keys of a mapping whose values are secrets by name; {"name": NAME, "value": ...} has one too."""
    named = {key for key in record if names_a_secret(key)}
    if "logprob" in record:
        named.discard("token")  # of a model
    if any(isinstance(record.get(key), str) and names_a_secret(record[key]) for key in ("name", "key", "header")):
        named.add("value")
    return named


def _is_schema(record: Mapping[str, Any]) -> bool:
    """Return True for the JSON Schema of an argument, whose name may be `password`."""
    return any(key in record for key in ("type", "$ref", "anyOf", "oneOf", "allOf", "enum"))


def _parsed(text: str) -> Any:
    """Return what a text holds as JSON: mapping, list or text; None if it is no such JSON."""
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _of(text: _Text, own: Mapping[str, str]) -> Iterator[str]:
    value = ESCAPED.sub(lambda match: chr(int(match[1], 16)), text.value)
    if text.secret and value.strip():
        yield "a credential"
    yield from _secrets(value, own)
    yield from _paths(value)


def _secrets(text: str, own: Mapping[str, str]) -> Iterator[str]:
    for variable, secret in own.items():
        if secret in text:
            yield f"the value of the environment variable {variable}"
    kinds = {one.kind for one in credentials_in(text)}
    if kinds - OF_A_URL or any(map(_is_secret_pair, PAIR.finditer(text))):
        yield "a credential"
    if kinds & OF_A_URL:
        yield "a URL with a password or token"


def _is_secret_pair(pair: re.Match[str]) -> bool:
    name, text = pair["name"], pair["text"]
    return names_a_password(name) if text is None else bool(text.strip()) and names_a_secret(name)


def _paths(text: str) -> Iterator[str]:
    home = str(Path.home())
    of_home = len(home) > 1 and re.search(rf"(?<![\w.}}]){re.escape(home)}(?:/|$)", text)
    if ABSOLUTE.match(text) or PureWindowsPath(text).is_absolute() or OF_A_USER.search(text) or of_home:
        yield f"a path of this machine: {text[:200]!r}"


def _secrets_of_the_environment() -> dict[str, str]:
    """Return the values of environment variables that are named like a secret."""
    return {
        name: value
        for name, value in os.environ.items()
        if len(value) >= LONG_ENOUGH and names_a_secret(name) and not os.path.exists(value)
    }
