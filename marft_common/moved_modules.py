"""Redirect old import paths of a package: `marft_agents.trainer` is `marft_agents.runs.trainer` now."""

import importlib
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def redirect_old_modules(package: str, moved: Mapping[str, tuple[str, ...]]) -> None:
    """Install the finder of a package's old import paths, once per process.

    Args:
        package: Name of the package.
        moved: Modules that hold the names of an old module now, by its name; all relative to the package. The
            submodules of an old package are found in its one replacement, unless they are named themselves.
    """
    if not any(isinstance(finder, _OldModules) and finder.package == package for finder in sys.meta_path):
        finder: Any = _OldModules(package, moved)
        # First, as the leftover folder of an old package (its __pycache__) is a namespace package for the others.
        sys.meta_path.insert(0, finder)


def renamed(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a module's `__getattr__` that gives renamed names at their old name, with a DeprecationWarning.

    Args:
        module: `__name__` of the module.
        names: New name by old name.
    """

    def attribute(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(f"{module}.{name} is called {names[name]} now", DeprecationWarning, stacklevel=2)
        return getattr(sys.modules[module], names[name])

    return attribute


class _OldModules:
    """Finder and loader of moved modules by their old names, with a DeprecationWarning.

    It does not subclass the base classes of `importlib.abc`. Importing those takes longer than importing a package.
    """

    def __init__(self, package: str, moved: Mapping[str, tuple[str, ...]]) -> None:
        self.package, self.moved = package, moved

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of a moved module, or None."""
        replacements = self._replacements(name)
        if not replacements:
            return None
        found = find_spec(replacements[0])
        if found is None:
            return None
        loader: Any = self
        return ModuleSpec(name, loader, is_package=found.submodule_search_locations is not None)

    def _replacements(self, name: str) -> list[str]:
        package, _, old = name.partition(".")
        if package != self.package:
            return []
        if old in self.moved:
            return [f"{package}.{new}" for new in self.moved[old]]
        parent, _, module = old.rpartition(".")
        return [f"{new}.{module}" for new in self._replacements(f"{package}.{parent}")[:1]] if parent else []

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None, so that the import system creates an empty module."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill an old module with the public names of its replacements, and warn."""
        replacements = self._replacements(module.__name__)
        warnings.warn(f"{module.__name__} is {replacements[0]} now", DeprecationWarning, stacklevel=2)
        modules = [importlib.import_module(name) for name in replacements]
        for found in modules:
            module.__dict__.update({key: value for key, value in vars(found).items() if key[:2] != "__"})

        def attribute(name: str) -> Any:
            for found in modules if name[:2] != "__" else ():
                value = getattr(found, name, None)  # a name that was renamed, too; it warns
                if value is not None:
                    return value
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

        module.__dict__["__getattr__"] = attribute
