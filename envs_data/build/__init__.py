"""Build scripts of the embedded data sets: `python -m envs_data.build [--out FOLDER] [NAME ...]`.

Each module or package `envs_data.build.NAME` holds `SPEC`, the specification of one set; a "/" in a name is a
folder. Rebuilding writes the same bytes, which a test checks. These scripts may use sympy; `envs_data` itself has
no dependencies. They are not part of the installed package: run them in a checkout of the repository.
"""

from importlib import import_module

from envs_data.build.draft import SetSpec

NAMES = (
    "aime",
    "cmath",
    "codeforces",
    "gsm8k",
    "ladder/cmath",
    "ladder/codeforces",
    "ladder/math",
    "ladder/tools",
    "math",
    "retain",
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
        ValueError: Unknown name of a set.
    """
    if name not in NAMES:
        raise ValueError(f"envs_data.build: found set {name!r}, wanted one of {', '.join(NAMES)}")
    found: SetSpec = import_module(f"envs_data.build.{name.replace('/', '.')}").SPEC
    return found
