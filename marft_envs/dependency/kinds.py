"""Kinds of dependencies by name, and their JSON form `{"kind": ..., ...}`.

A kind that needs more than the core (a hand-off needs tools) is registered by its path and loads on first use.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from marft_common.close_names import did_you_mean
from marft_envs.dependency.base import Dependency, DependencyError


class Kind(NamedTuple):
    """How a kind is made from its JSON form: its maker, or "module:function", and the keys of its keywords."""

    maker: Callable[..., Dependency] | str
    required: tuple[str, ...]
    optional: tuple[str, ...]


_KINDS: dict[str, Kind] = {}


def register_kind(
    name: str,
    maker: Callable[..., Dependency] | str,
    *,
    required: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
) -> None:
    """Add a kind of dependency, which its JSON form then names.

    Args:
        name: Name of the kind.
        maker: Makes the dependency from keywords; or "module:function", imported on first use.
        required: Keywords that the JSON form must have.
        optional: Keywords that it may have.
    """
    _KINDS[name] = Kind(maker, required, optional)


def maker_of(name: str) -> Callable[..., Dependency]:
    """Return the maker of a registered kind."""
    maker = _KINDS[name].maker
    found: Callable[..., Dependency] = pkgutil.resolve_name(maker) if isinstance(maker, str) else maker
    return found


def as_dependency(value: object, where: str = "dependency") -> Dependency:
    """Convert a dependency, its JSON form, or the name of a preset ("independent", "chain", "full") to a dependency.

    Raises:
        DependencyError: It is none of these.
    """
    if isinstance(value, Dependency):
        return value
    if isinstance(value, str):
        return from_dict({"kind": value}, where)
    if isinstance(value, Mapping):
        return from_dict(value, where)
    raise DependencyError(
        f"{where}: expected a Dependency, the name of a preset or its JSON form, got {type(value).__name__}"
    )


def from_dict(value: Mapping[str, Any], where: str = "dependency") -> Dependency:
    """Read the JSON form.

    Args:
        value: JSON form `{"kind": ..., ...}`, as written by `to_dict`.
        where: Place named in error messages, e.g. "team.json: dependency".

    Raises:
        DependencyError: Unknown kind, missing or unknown key, or a value that its preset refuses.
    """
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        hint = did_you_mean(str(kind), _KINDS)
        raise DependencyError(f"{where}.kind: found {kind!r}, wanted one of {', '.join(_KINDS)}{hint}")
    _, required, optional = _KINDS[kind]
    given = dict(value)
    del given["kind"]
    for key in required:
        if key not in given:
            raise DependencyError(f"{where}: a dependency of kind {kind!r} needs the key {key!r}")
    for key in given:
        if key not in required + optional:
            raise DependencyError(f"{where}: unknown key {key!r}; kind {kind!r} takes {list(required + optional)}")
    try:
        return maker_of(kind)(**given)
    except (DependencyError, TypeError) as error:  # TypeError: a value of another type than the maker takes
        raise DependencyError(f"{where}: {error}") from error


def handoff(*, start: str | None = None, sees: str = "handoff") -> Dependency:
    """Let one agent hold control, from `start` on, until its action hands it to another."""
    return maker_of("handoff")(start=start, sees=sees)
