"""Languages of the judge: source file, build command and run command of each.

Add a language with `add_language(Language(...))`. Commands run in the folder of the program. Their words may
hold `{box}` (that folder), `{python}` and `{c++}` (the tools in the jail), and `{headers}` (the folder of the
precompiled headers).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from marft_common.close_names import did_you_mean
from marft_envs.sandbox.jail.python_start import LONG_INTEGERS, PYTHON_START

# Source is parsed once at build time, not once per test (`jail.python_start`). Tracebacks name main.py.
_PYTHON_BUILD = """\
import marshal, sys
sys.tracebacklimit = 0
with open(sys.argv[1], "rb") as file:
    code = compile(file.read(), "main.py", "exec", dont_inherit=True)
with open(sys.argv[2], "wb") as file:
    marshal.dump(code, file)
"""
# The image's precompiled headers are valid only for exactly the flags they were built with.
CXX_FLAGS = ("-O2", "-DONLINE_JUDGE")
# A program in fewer parts starts sooner, as each start maps its pages anew.
_CXX_LINKING = ("-static", "-s", "-Wl,-z,noseparate-code")
_CXX_BOUNDS = ("-fmax-errors=3", "-ftemplate-depth=512", "-fconstexpr-ops-limit=10000000")


@dataclass(frozen=True)
class Language:
    """Build and run commands of one language.

    Attributes:
        name: Name used by submissions.
        source: File name of the program's source.
        build: Command that builds `{box}/build/PRODUCT` from the source; empty if there is no build step.
        product: File name of the built program, later found at `{box}/PRODUCT`.
        run: Command that runs one test.
        cpu_factor: Factor on the CPU and wall limits.
        extra_memory_mb: The interpreter's own memory, MiB, on top of the memory limit.
    """

    name: str
    source: str
    build: tuple[str, ...]
    product: str
    run: tuple[str, ...]
    cpu_factor: float = 1.0
    extra_memory_mb: int = 0

    def command(self, words: tuple[str, ...], places: Mapping[str, str]) -> tuple[bytes, ...]:
        """Return a command with its placeholders filled in.

        Raises:
            KeyError: The jail lacks a tool that the command needs; the argument is its name.
        """
        filled = []
        for word in words:
            text = word
            for name in ("box", "python", "c++", "headers"):
                if f"{{{name}}}" in text:
                    text = text.replace(f"{{{name}}}", places[name])
            filled.append(text.encode())
        return tuple(filled)


def _cxx(standard: str) -> Language:
    # No -pipe: a source that includes the compiler's own output would block until the wall limit.
    flags = (f"-std={standard}", *CXX_FLAGS, f"-I{{headers}}/{standard}", *_CXX_BOUNDS, *_CXX_LINKING)
    return Language(
        standard,
        "main.cpp",
        build=("{c++}", *flags, "-o", "build/main", "main.cpp"),
        product="main",
        run=("{box}/main",),
        extra_memory_mb=8,
    )


LANGUAGES: dict[str, Language] = {
    "python": Language(
        "python",
        "main.py",
        build=("{python}", *LONG_INTEGERS, "-sSWignore", "-c", _PYTHON_BUILD, "main.py", "build/main.bin"),
        product="main.bin",
        run=("{python}", *PYTHON_START),
        extra_memory_mb=32,
    ),
    "c++17": _cxx("c++17"),
    "c++20": _cxx("c++20"),
}
_ALIASES = {"c++": "c++17", "cpp": "c++17", "cpp17": "c++17", "cpp20": "c++20", "py": "python", "python3": "python"}


def add_language(language: Language) -> None:
    """Add a language to the table, or replace the one of that name."""
    LANGUAGES[language.name] = language


def find_language(name: str) -> Language:
    """Return the language of a name or an alias.

    Raises:
        ValueError: Unknown language; the message names close matches.
    """
    key = name.strip().lower()
    key = _ALIASES.get(key, key)
    if key not in LANGUAGES:
        hint = did_you_mean(key, sorted({*LANGUAGES, *_ALIASES}))
        raise ValueError(f"language: found {name!r}, wanted one of {', '.join(sorted(LANGUAGES))}{hint}")
    return LANGUAGES[key]
