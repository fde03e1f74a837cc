"""Registry of environments by id, `namespace/name-vN`: our own, PettingZoo's and Gymnasium's.

Third parties add theirs with `register` or `register_task` in their code. They may also use an entry point in the
group `marft_envs.plugins` (a module to import, or a function to call). A broken plugin is reported, never
raised.
"""

from __future__ import annotations

import difflib
import importlib
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import pettingzoo

from marft_common.import_paths import import_failure
from marft_envs.environment_capabilities import AnyAEC
from marft_envs.registration import plugins

_ID = re.compile(r"(?P<name>[a-zA-Z][\w-]*/[\w-]+?)(?:[-_]v(?P<version>\d+))?")
_OUR_ENTRY_POINTS = "marft_envs.registration.factory:"


@dataclass(frozen=True)
class EnvSpec:
    """An environment that can be made.

    Attributes:
        id: Id of the form `namespace/name-vN`.
        entry_point: Makes the bare AEC environment; or "module:attribute".
        kwargs: Keywords given to it before the caller's own.
        description: Description in one line.
        task: Name of the task set; empty for environments that are no Flex-MG.
        team: Name of the team; empty for environments that are no Flex-MG.
        plugin: Name of the plugin that registered it; empty for ours and for the user's own.
        deprecated: Reason for a newer version; making this one gives a warning with it. Empty for the newest.
    """

    id: str
    entry_point: Callable[..., AnyAEC] | str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    description: str = ""
    task: str = ""
    team: str = ""
    plugin: str = ""
    deprecated: str = ""


class UnknownEnvironmentError(KeyError):
    """No environment of that id; the message names the close ones."""

    def __init__(self, env_id: str) -> None:
        module, colon, short = env_id.rpartition(":")
        spaces = sorted({known.partition("/")[0] for known in _REGISTRY})
        space, slash, _ = short.partition("/")
        if slash and space not in spaces:
            others = f"there are {', '.join(spaces)}, and an id of a module that is not imported is MODULE:{short}; "
            others += "an id that a program registers as it runs is known in that program alone"
            named = f"no id begins with {space}/; {others}"
        elif close := difflib.get_close_matches(short, _REGISTRY, n=4, cutoff=0.5):
            own = [f"{module}{colon}{known}" if known.startswith(f"{space}/") else known for known in close]
            named = f"did you mean {', '.join(own)}?"
        else:
            named = f"there are {len(_REGISTRY)}, which begin with {', '.join(f'{known}/' for known in spaces)}"
        self.message = f"no environment has the id {env_id!r}; {named} (all: `marft envs` or marft_envs.envs())"
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message


_REGISTRY: dict[str, EnvSpec] = {}


# --------------------------------------------------------------------- look up


def envs() -> list[str]:
    """Return the ids of all environments, those of plugins included, sorted."""
    load_plugins()
    return sorted(_REGISTRY)


def spec(id: str) -> EnvSpec:
    """Return the spec of an id; without a version the newest.

    Args:
        id: `namespace/name-vN`; "module:namespace/name-vN" imports the module first, as in Gymnasium.

    Raises:
        UnknownEnvironmentError: No environment has this id.
        ImportError: The module cannot be imported.
    """
    if not isinstance(id, str):
        raise TypeError(f"the id of an environment is a string, got {type(id).__name__}")
    module, _, short = id.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise ImportError(f"{id!r}: {import_failure(module, error)}") from error
    load_plugins()
    if found := _find(short):
        return found
    raise UnknownEnvironmentError(id)


def newest(found: EnvSpec) -> EnvSpec:
    """Return the newest version of an environment."""
    return _find(found.id.rpartition("-v")[0]) or found


def _find(id: str) -> EnvSpec | None:
    parts = _ID.fullmatch(id)
    if parts is None:
        return None
    if parts["version"] is not None:
        return _REGISTRY.get(f"{parts['name']}-v{int(parts['version'])}")
    versions = [int(key.rpartition("-v")[2]) for key in _REGISTRY if key.rpartition("-v")[0] == parts["name"]]
    return _REGISTRY[f"{parts['name']}-v{max(versions)}"] if versions else None


# -------------------------------------------------------------------- register


def register(
    id: str,
    entry_point: Callable[..., AnyAEC] | str,
    *,
    kwargs: Mapping[str, Any] | None = None,
    description: str = "",
    task: str = "",
    team: str = "",
    deprecated: str = "",
    force: bool = False,
) -> EnvSpec:
    """Register an environment here, with PettingZoo (aec and parallel) and with Gymnasium (shared policy).

    Args:
        id: Id of the form `namespace/name-vN`.
        entry_point: Makes the bare AEC environment, or "module:attribute" of a function that does.
        kwargs: Keywords given to it before the caller's own.
        description: Description in one line.
        task: Name of its task set, if it has one.
        team: Name of its team, if it has one.
        deprecated: Reason for a newer version; making this one gives a warning with it.
        force: True to replace an environment with this id here, with PettingZoo or with Gymnasium. A warning names
            environments of others that are replaced there.

    Raises:
        ValueError: The id is of another form, or taken in one of the three registries.
    """
    check_id(id, force)
    if replaced := _held_elsewhere(id):
        plugins.report(f"the id {id!r} was taken {replaced}, which is replaced")
    entry = EnvSpec(id, entry_point, dict(kwargs or {}), description, task, team, plugins.loading(), deprecated)
    _register_elsewhere(id)
    _REGISTRY[id] = entry
    return entry


def check_id(id: str, force: bool = False) -> None:
    """Require an id that `register` takes.

    Raises:
        ValueError: It is of another form, or taken and `force` is false.
    """
    parts = _ID.fullmatch(id)
    if parts is None or parts["version"] is None or not id.endswith(f"-v{parts['version']}"):
        raise ValueError(f"id {id!r}: wanted 'namespace/name-vN', like 'marft/math_duo-v0'")
    holder = _held_elsewhere(id)
    if id in _REGISTRY:
        taken = _REGISTRY[id]
        holder = "by " + (f"the plugin {taken.plugin!r}" if taken.plugin else repr(taken.entry_point))
    if holder and not force:
        raise ValueError(f"the id {id!r} is taken {holder}; choose another, or pass force=True to replace it")


def _held_elsewhere(id: str) -> str:
    """Return the other owner of an id in Gymnasium or PettingZoo; empty if there is none.

    Entries of ours do not count: they may be left of an earlier import of this package.
    """
    registries: dict[str, Mapping[str, Any]] = {"Gymnasium": gymnasium.registry}
    if hasattr(pettingzoo, "register"):
        registries["PettingZoo (aec)"] = pettingzoo.aec_registry
        registries["PettingZoo (parallel)"] = pettingzoo.parallel_registry
    for library, registry in registries.items():
        found = registry.get(id)
        if found is not None and not str(found.entry_point).startswith(_OUR_ENTRY_POINTS):
            return f"with {library} by {found.entry_point!r}"
    return ""


def _register_elsewhere(id: str) -> None:
    gymnasium.registry.pop(id, None)
    gymnasium.register(id, f"{_OUR_ENTRY_POINTS}make_shared", kwargs={"env_id": id})
    if hasattr(pettingzoo, "register"):  # from 1.27 on
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # replacing is meant
            pettingzoo.register("aec", id, f"{_OUR_ENTRY_POINTS}make", kwargs={"env_id": id})
            pettingzoo.register("parallel", id, f"{_OUR_ENTRY_POINTS}make_parallel", kwargs={"env_id": id})


def load_plugins(*, importing: bool = False) -> None:
    """Load each entry point of the group `marft_envs.plugins` once; report those that fail as warnings.

    Args:
        importing: `marft_envs` is being imported, perhaps by a plugin that is half imported itself. Plugins of packages
            that are known already are left to the next call.
    """
    plugins.load_waiting(_REGISTRY, importing=importing)
