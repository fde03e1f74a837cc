"""Build scripts of the embedded data sets: `python -m envs_data.build [--out FOLDER] [NAME ...]`.

Each module `envs_data.build.NAME` (or package; a "/" in a name is a folder) holds `SPEC`, the specification of
one set. Rebuilding writes the same bytes; a test does it. These scripts may use sympy; `envs_data` itself needs
nothing.
"""

from importlib import import_module

from envs_data.build.draft import SetSpec

NAMES = (
    "aime",
    "cmath",
    "codeforces",
    "gsm8k",
    "math",
    "stories",
    "tools/desk",
    "tools/lookup",
    "tools/shop",
    "tools/travel",
)
"""The sets that can be built."""


def spec(name: str) -> SetSpec:
    """Return the specification of a set.

    Raises:
        ValueError: No such set.
    """
    if name not in NAMES:
        raise ValueError(f"envs_data.build: found set {name!r}, wanted one of {', '.join(NAMES)}")
    found: SetSpec = import_module(f"envs_data.build.{name.replace('/', '.')}").SPEC
    return found
