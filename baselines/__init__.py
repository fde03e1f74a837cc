"""Command line, quickstart, benchmark plans, and training scripts for other RL libraries."""

from typing import TYPE_CHECKING

__version__: str  # version of the installed distribution `marft`, read when it is first asked for

if not TYPE_CHECKING:  # for a type checker, a module with `__getattr__` has every name

    def __getattr__(name: str) -> str:
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import version  # takes 40 ms, a multiple of the rest of a light import

        return version("marft")
