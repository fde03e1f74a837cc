"""Plugin loading: environments of other packages from the entry-point group `marft_envs.plugins`.

The plugins of `marft_envs/plugins/` come first. They need no installed metadata, so a checkout has them too.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Collection
from importlib import metadata

from marft_common.visible_text import visible

PLUGIN_GROUP = "marft_envs.plugins"
_LISTED = {"bfcl": "bfcl", "tau2": "tau2"}  # name and folder; `marft envs` lists their ids beside ours,
_MORE = {  # and those of these only if it is asked for them
    "reasoning-gym": "reasoning",
    "plancraft": "plancraft",
    "textworld-express": "textworld",
    "agentdojo": "agentdojo",
}
BUNDLED = tuple(
    metadata.EntryPoint(name, f"marft_envs.plugins.{folder}:register", PLUGIN_GROUP)
    for name, folder in (_LISTED | _MORE).items()
)
UNLISTED = frozenset(_MORE)
"""Names of the plugins whose ids `marft envs` lists with `--all`."""

_waiting: list[metadata.EntryPoint] | None = None  # plugins not loaded yet; None: not looked for
_loading = ""  # the plugin that is being loaded


def loading() -> str:
    """Return the name of the plugin that is being loaded; empty if none is."""
    return _loading


def load_waiting(registered: Collection[str], *, importing: bool = False) -> None:
    """Load each entry point of the group once; report those that fail as warnings.

    Args:
        registered: The ids of all environments, kept up to date by the registry.
        importing: `marft_envs` is being imported, perhaps by a plugin that is half imported itself. Plugins of packages
            that are known already are left to the next call.
    """
    global _waiting, _loading  # noqa: PLW0603 - once per process
    if _waiting is None:
        _waiting = [*BUNDLED, *_installed()]
    due: list[metadata.EntryPoint] = []
    later: list[metadata.EntryPoint] = []
    for plugin in _waiting:
        package = re.split(r"[.:]", plugin.value)[0]
        may_be_half_imported = importing and plugin not in BUNDLED and package in sys.modules
        (later if may_be_half_imported else due).append(plugin)
    _waiting = later
    for plugin in due:
        before, _loading = set(registered), plugin.name
        try:
            loaded = plugin.load()
            if callable(loaded):
                loaded()
        except (Exception, SystemExit) as error:
            consequence = "the other environments are not affected"
            if left := sorted(set(registered) - before):
                consequence += f"; registered before it failed: {', '.join(left)}"
            report(
                f"the plugin {plugin.name!r} ({plugin.value}){_origin(plugin)} could not be loaded: "
                f"{type(error).__name__}: {error}; {consequence}"
            )
        finally:
            _loading = ""


def report(problem: str) -> None:
    """Warn of a problem of somebody else's package; never raise."""
    try:
        warnings.warn(problem, RuntimeWarning, stacklevel=5)
    except RuntimeWarning:  # warnings are errors here; the broken part is still not this package
        sys.stderr.write(visible(f"{problem}\n"))


def _installed() -> list[metadata.EntryPoint]:
    """Return the plugins of all installed packages, also where one package's entry points cannot be read."""
    try:
        return list(metadata.entry_points(group=PLUGIN_GROUP))
    except Exception:
        found: list[metadata.EntryPoint] = []
        for package in metadata.distributions():
            found += _plugins_of(package)
        return list(dict.fromkeys(found))  # a package may be found twice, by two folders of the path


def _plugins_of(package: metadata.Distribution) -> list[metadata.EntryPoint]:
    try:
        return list(package.entry_points.select(group=PLUGIN_GROUP))
    except Exception as error:
        report(f"the entry points of the package {package.name!r} cannot be read: {type(error).__name__}: {error}")
        return []


def _origin(plugin: metadata.EntryPoint) -> str:
    """Return the package of a plugin and the version of ours it requires, a possible cause of its failure."""
    if plugin.dist is None:
        return ""
    found = f" of {plugin.dist.name} {plugin.dist.version}"
    asked = [line for line in plugin.dist.requires or () if re.match(r"marft(?![\w.-])", line)]
    if not asked:
        return found
    try:
        version = metadata.version("marft")
    except metadata.PackageNotFoundError:  # run from a checkout
        version = "not installed"
    return f"{found}, which asks for {asked[0]} (this is {version})"
