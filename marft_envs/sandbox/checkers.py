"""Checkers: whether an output is right. Those on bytes run on the host and execute nothing; programs run in the jail.

| spec | accepts |
|---|---|
| tokens | the same tokens, whatever blanks and line ends stand between them (the default) |
| exact | the same bytes |
| lines | the same lines but for blanks at their ends and empty lines at the end |
| yesno | as tokens, "yes" and "no" in any case |
| floats[:ABS[:REL]] | as tokens; where a number is expected, one within ABS, or within REL of it (1e-6; REL is ABS) |

Outputs are hostile: nothing is decoded, no token is read as a number before a regular expression on ASCII has
seen it, and an output of many tokens is not taken apart further than the expected one reaches.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Literal, NamedTuple, Protocol, runtime_checkable

_FLOAT = re.compile(rb"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]{1,5})?")
_SCORE = re.compile(rb"[01](?:\.[0-9]{1,24})?(?:e-[0-9]{1,3})?")
_MAX_NUMBER_BYTES = 400
_SHOWN_BYTES = 40


class Check(NamedTuple):
    """What a checker says.

    Attributes:
        score: 1.0 for right, 0.0 for wrong; programs may give a fraction.
        reason: Why it is wrong; never holds the expected output.
    """

    score: float
    reason: str = ""


@runtime_checkable
class Checker(Protocol):
    """Compares an output with the expected one; pure, and safe to run on the host whatever the output."""

    def check(self, input: bytes, output: bytes, expected: bytes) -> Check:
        """Say whether an output is right."""


@dataclass(frozen=True)
class Exact:
    """The same bytes."""

    def check(self, input: bytes, output: bytes, expected: bytes) -> Check:
        """Compare all bytes."""
        return _RIGHT if output == expected else Check(0.0, f"the {len(output)} bytes differ from the expected ones")


@dataclass(frozen=True)
class Lines:
    """The same lines, but for blanks at the end of each and empty lines at the end of all."""

    def check(self, input: bytes, output: bytes, expected: bytes) -> Check:
        """Compare line by line."""
        wanted = [line.rstrip() for line in expected.rstrip().split(b"\n")]
        found = output.rstrip().split(b"\n", len(wanted))
        return _compare("line", found, wanted, lambda line, want: line.rstrip() == want)


@dataclass(frozen=True)
class Tokens:
    """The same words between ASCII blanks; numbers are compared as they are written."""

    def check(self, input: bytes, output: bytes, expected: bytes) -> Check:
        """Compare token by token."""
        return _compare_tokens(output, expected, lambda token, want: token == want)


@dataclass(frozen=True)
class YesNo:
    """The same tokens; where YES or NO is expected, in any case."""

    def check(self, input: bytes, output: bytes, expected: bytes) -> Check:
        """Compare token by token."""
        return _compare_tokens(output, expected, _is_same_word)


@dataclass(frozen=True)
class Floats:
    """The same tokens; where a number is expected, a number close to it.

    Attributes:
        absolute: |a - b| <= absolute is enough.
        relative: So is |a - b| <= relative * |b|, b being expected.
    """

    absolute: float = 1e-6
    relative: float = 1e-6

    def __post_init__(self) -> None:
        for name, value in (("ABS", self.absolute), ("REL", self.relative)):
            if not 0 <= value <= 1:
                raise ValueError(f"checker floats: {name} is {value!r}, wanted a number from 0 to 1, like floats:1e-6")

    def check(self, input: bytes, output: bytes, expected: bytes) -> Check:
        """Compare token by token."""
        return _compare_tokens(output, expected, self._is_close)

    def _is_close(self, token: bytes, want: bytes) -> bool:
        if token == want:
            return True
        wanted, found = _number(want), _number(token)
        if wanted is None or found is None:
            return False
        return abs(found - wanted) <= max(self.absolute, self.relative * abs(wanted))


@dataclass(frozen=True)
class ProgramChecker:
    """A checker that is itself a program, written in Python; it runs in a jail of its own, never on the host.

    Attributes:
        source: The program.
        contract: "function": it defines `check(input, output, expected)`, all `str` (what is no UTF-8 is
            replaced), and returns a bool or a number from 0 to 1. "files": it is called as
            `checker.py input.txt correct_output.txt solution_output.txt` and prints a number from 0 to 1
            (generated_checker of open-r1/codeforces).

    A checker that fails on an output, or exceeds its limits, but works on the expected one has met garbage, which
    scores 0; one that fails on both is broken, and says nothing.
    """

    source: str
    contract: Literal["function", "files"] = "function"

    def __post_init__(self) -> None:
        if self.contract not in ("function", "files"):
            raise ValueError(f"checker program: contract {self.contract!r}, wanted 'function' or 'files'")
        if not self.source.strip():
            raise ValueError("checker program: it is empty; mend or remove it")

    def submission_files(self, input: bytes, output: bytes, expected: bytes) -> Mapping[str, bytes]:
        """Return the files of the jail; `python3 main.py` runs the check and prints the score."""
        driver = resources.files("marft_envs.sandbox").joinpath("check_program.py").read_bytes()
        return {
            "main.py": driver,
            "checker.py": self.source.encode("utf-8", "backslashreplace"),
            "contract.txt": self.contract.encode(),
            "input.txt": input,
            "correct_output.txt": expected,
            "solution_output.txt": output,
        }

    @staticmethod
    def read_score(stdout: bytes) -> float | None:
        """Return the score that `main.py` printed, 0 to 1; None for anything else."""
        text = stdout[:65].strip()
        return float(text) if len(stdout) <= 64 and _SCORE.fullmatch(text) and float(text) <= 1 else None


AnyChecker = Checker | ProgramChecker


def read_checker(spec: str | AnyChecker) -> AnyChecker:
    """Return the checker of a spec; one that is already made comes back as it is.

    Raises:
        ValueError: No such checker, or numbers that it can't have.

    Example:
        >>> read_checker("floats:1e-4").check(b"", b"0.33334", b"0.333333").score
        1.0
    """
    if not isinstance(spec, str):
        if isinstance(spec, Checker | ProgramChecker):
            return spec
        raise ValueError(
            f"checker: found {type(spec).__name__}, wanted a Checker or one of {', '.join(_NAMED)}, floats"
        )
    name, *numbers = spec.strip().split(":")
    if name == "floats" and len(numbers) <= 2:
        return _read_floats(spec, numbers)
    if name in _NAMED and not numbers:
        return _NAMED[name]
    close = difflib.get_close_matches(name, (*_NAMED, "floats"), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"checker: found {spec!r}, wanted {', '.join(_NAMED)} or floats[:ABS[:REL]]{hint}")


def _read_floats(spec: str, numbers: list[str]) -> Floats:
    try:
        read = [float(number) for number in numbers]
    except ValueError as error:
        raise ValueError(f"checker: found {spec!r}, wanted numbers, like floats:1e-6 or floats:1e-6:1e-9") from error
    return Floats(*(read * 2)[:2]) if read else Floats()


_RIGHT = Check(1.0)
_NAMED: Mapping[str, Checker] = {"tokens": Tokens(), "exact": Exact(), "lines": Lines(), "yesno": YesNo()}


def _compare_tokens(output: bytes, expected: bytes, same: Callable[[bytes, bytes], bool]) -> Check:
    if output == expected:
        return _RIGHT
    wanted = expected.split()
    return _compare("token", output.split(None, len(wanted)), wanted, same)


def _compare(what: str, found: list[bytes], wanted: list[bytes], same: Callable[[bytes, bytes], bool]) -> Check:
    """Compare item by item; `found` holds one item too many where the output goes on."""
    for place, (item, want) in enumerate(zip(found, wanted, strict=False), start=1):
        if not same(item, want):
            return Check(0.0, f"{what} {place} is wrong: {item[:_SHOWN_BYTES]!r}")
    if len(found) == len(wanted):
        return _RIGHT
    longer = len(found) > len(wanted)
    return Check(0.0, f"the output goes on after {what} {len(wanted)}" if longer else f"only {len(found)} {what}s")


def _is_same_word(token: bytes, want: bytes) -> bool:
    return token == want or (want.lower() in (b"yes", b"no") and token.lower() == want.lower())


def _number(token: bytes) -> float | None:
    if len(token) > _MAX_NUMBER_BYTES or not _FLOAT.fullmatch(token):
        return None
    value = float(token)
    return value if math.isfinite(value) else None
