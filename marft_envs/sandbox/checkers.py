"""Output checkers: comparison of bytes on the host, and checker programs in the jail.

| spec | accepts |
|---|---|
| tokens | the same tokens with any blanks and line ends between them (the default) |
| exact | the same bytes |
| lines | the same lines except for trailing blanks and trailing empty lines |
| yesno | like tokens, with "yes" and "no" in any case |
| floats[:ABS[:REL]] | like tokens; numbers may differ by ABS, or relatively by REL (default ABS 1e-6, REL = ABS) |
| values[:ABS[:REL]] | like floats, but an expected token is a number only if it has a point or an exponent; any other \
is text, such as 7 or 007. nan and inf match nothing |
| json[:ABS[:REL]] | the JSON text of an equal value; floats may differ as above, an integer may be an equal float |

Outputs are hostile, so byte checkers execute and decode nothing. A token is parsed as a number only after it
matches a regular expression on ASCII. An output is split no further than the length of the expected one. Integers are
compared by their digits, of which they may have any number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from itertools import islice
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from marft_common.close_names import did_you_mean

_FLOAT = re.compile(rb"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]{1,5})?")
_FRACTION = re.compile(rb"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][+-]?[0-9]{1,5})?")
_JSON_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[^\s,:\[\]{}"]++|[,:\[\]{}]', re.DOTALL)
_NOT_FINITE = re.compile(rb"[+-]?(?:nan|NaN|inf|Inf|[Ii]nfinity)")  # as programs print such floats
_EXACT_FLOATS = 2**53  # all integers up to here are floats
_SCORE = re.compile(rb"[01](?:\.[0-9]{1,24})?(?:e-[0-9]{1,3})?")
_SHOWN_BYTES = 40


class Check(NamedTuple):
    """Result of a checker.

    Attributes:
        score: 1.0 for correct, 0.0 for wrong; checker programs may give a fraction.
        reason: Explanation of a wrong output; never holds the expected output.
    """

    score: float
    reason: str = ""


@runtime_checkable
class Checker(Protocol):
    """Pure comparison of an output with the expected one; safe on the host for any output."""

    def check(self, input: bytes, output: bytes, expected: bytes) -> Check:
        """Compare an output with the expected one."""


@dataclass(frozen=True)
class Exact:
    """Checker for equal bytes."""

    def check(self, input: bytes, output: bytes, expected: bytes) -> Check:
        """Compare all bytes of the outputs."""
        return _RIGHT if output == expected else Check(0.0, f"the {len(output)} bytes differ from the expected ones")


@dataclass(frozen=True)
class Lines:
    """Checker for equal lines, except for trailing blanks and trailing empty lines."""

    def check(self, input: bytes, output: bytes, expected: bytes) -> Check:
        """Compare the outputs line by line."""
        wanted = [line.rstrip() for line in expected.rstrip().split(b"\n")]
        found = output.rstrip().split(b"\n", len(wanted))
        return _compare("line", found, wanted, lambda line, want: line.rstrip() == want)


@dataclass(frozen=True)
class Tokens:
    """Checker for equal tokens between ASCII blanks; numbers are compared as text."""

    def check(self, input: bytes, output: bytes, expected: bytes) -> Check:
        """Compare the outputs token by token."""
        return _compare_tokens(output, expected, lambda token, want: token == want)


@dataclass(frozen=True)
class YesNo:
    """Checker for equal tokens, with an expected YES or NO in any case."""

    def check(self, input: bytes, output: bytes, expected: bytes) -> Check:
        """Compare the outputs token by token."""
        return _compare_tokens(output, expected, _is_same_word)


@dataclass(frozen=True)
class Floats:
    """Checker for equal tokens, with a tolerance for numbers.

    Attributes:
        absolute: Absolute tolerance: |a - b| <= absolute suffices.
        relative: Relative tolerance: |a - b| <= relative * |b| suffices, with b the expected number.
    """

    absolute: float = 1e-6
    relative: float = 1e-6

    def __post_init__(self) -> None:
        for name, value in (("ABS", self.absolute), ("REL", self.relative)):
            if not 0 <= value <= 1:
                raise ValueError(f"checker: {name} is {value!r}, wanted a number from 0 to 1, like floats:1e-6")

    def check(self, input: bytes, output: bytes, expected: bytes) -> Check:
        """Compare the outputs token by token."""
        return _compare_tokens(output, expected, self._is_close)

    def _is_close(self, token: bytes, want: bytes) -> bool:
        if token == want:
            return True
        wanted, found = _number(want), _number(token)
        if wanted is None or found is None:
            return False
        return abs(found - wanted) <= max(self.absolute, self.relative * abs(wanted))


@dataclass(frozen=True)
class Values(Floats):
    """Checker for the values of a program's output; see "values" in the table of the module.

    Attributes:
        words: The words nan and inf belong to the problem, and equal themselves.
        any_case: An expected YES or NO may be written in any case.
    """

    words: bool = False
    any_case: bool = False

    def check(self, input: bytes, output: bytes, expected: bytes) -> Check:
        """Compare the outputs token by token."""
        may_differ = not self.words and _may_have_not_finite(expected)
        return _compare_tokens(output, expected, self._is_same, may_differ=may_differ)

    def _is_same(self, token: bytes, want: bytes) -> bool:
        if _FRACTION.fullmatch(want):
            return self._is_close(token, want)
        if not self.words and _NOT_FINITE.fullmatch(want):
            return False
        return _is_same_word(token, want) if self.any_case else token == want


@dataclass(frozen=True)
class JsonValue(Floats):
    """Checker for one JSON value, such as the result of a function.

    Texts, integers, true, false and null are equal as JSON, so `true` is no 1. An expected float allows the
    tolerances. An expected integer below 2^53 may be an equal float. NaN and Infinity match nothing. The keys of
    objects must be in the same order: who writes the texts sorts them.

    Attributes:
        may_be_wrapped: A list of one element, the expected value, is right, too.
    """

    may_be_wrapped: bool = False

    def check(self, input: bytes, output: bytes, expected: bytes) -> Check:
        """Compare the JSON texts token by token."""
        found = self._compare(output, expected)
        if found.score == 0.0 and self.may_be_wrapped and output.startswith(b"["):
            wrapped = self._compare(output, b"[" + expected + b"]")
            return wrapped if wrapped.score else found
        return found

    def _compare(self, output: bytes, expected: bytes) -> Check:
        if output.rstrip() == expected and not _may_have_not_finite(expected):
            return _RIGHT
        wanted = _JSON_TOKEN.findall(expected)
        found = [match[0] for match in islice(_JSON_TOKEN.finditer(output), len(wanted) + 1)]
        return _compare("JSON token", found, wanted, self._is_same)

    def _is_same(self, token: bytes, want: bytes) -> bool:
        if token == want:
            return not _NOT_FINITE.fullmatch(want)
        if _FRACTION.fullmatch(want):
            return self._is_close(token, want)
        wanted = _number(want)
        is_exact = wanted is not None and abs(wanted) < _EXACT_FLOATS
        return is_exact and _FRACTION.fullmatch(token) is not None and _number(token) == wanted


@dataclass(frozen=True)
class ProgramChecker:
    """Checker that is a Python program; it runs in a separate jail, never on the host.

    A checker that fails or exceeds its limits on an output, but works on the expected one, scores 0: the output is
    invalid. A checker that fails on both is broken and gives no score.

    Attributes:
        source: Source text of the program.
        contract: Calling convention. "function": the program defines `check(input, output, expected)`, all `str`
            (invalid UTF-8 is replaced), and returns a bool or a number from 0 to 1. "files": it is called as
            `checker.py input.txt correct_output.txt solution_output.txt` and prints a number from 0 to 1
            (generated_checker of open-r1/codeforces).
    """

    source: str
    contract: Literal["function", "files"] = "function"

    def __post_init__(self) -> None:
        if self.contract not in ("function", "files"):
            raise ValueError(f"checker program: contract {self.contract!r}, wanted 'function' or 'files'")
        if not self.source.strip():
            raise ValueError("checker program: it is empty; fix or remove it")

    def submission_files(self, input: bytes, output: bytes, expected: bytes) -> Mapping[str, bytes]:
        """Return the files to put in the jail; `python3 main.py` runs the check and prints the score."""
        driver = resources.files("marft_envs.sandbox").joinpath("checker_runner.py").read_bytes()
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
        """Parse the score that `main.py` printed, 0 to 1; return None for anything else."""
        text = stdout[:65].strip()
        return float(text) if len(stdout) <= 64 and _SCORE.fullmatch(text) and float(text) <= 1 else None


AnyChecker = Checker | ProgramChecker


def read_checker(spec: str | AnyChecker) -> AnyChecker:
    """Create the checker of a spec; a checker object is returned unchanged.

    Raises:
        ValueError: Unknown checker, or invalid tolerances.

    Examples:
        >>> read_checker("floats:1e-4").check(b"", b"0.33334", b"0.333333").score
        1.0
    """
    if not isinstance(spec, str):
        if isinstance(spec, Checker | ProgramChecker):
            return spec
        raise ValueError(
            f"checker: found {type(spec).__name__}, wanted a Checker or one of {', '.join((*_NAMED, *_TOLERANT))}"
        )
    name, *numbers = spec.strip().split(":")
    if name in _TOLERANT and len(numbers) <= 2:
        return _TOLERANT[name](*_read_tolerances(spec, numbers))
    if name in _NAMED and not numbers:
        return _NAMED[name]
    tolerant = " or ".join(f"{each}[:ABS[:REL]]" for each in _TOLERANT)
    raise ValueError(
        f"checker: found {spec!r}, wanted {', '.join(_NAMED)}, {tolerant}" + did_you_mean(name, (*_NAMED, *_TOLERANT))
    )


def _read_tolerances(spec: str, numbers: list[str]) -> tuple[float, ...]:
    try:
        read = [float(number) for number in numbers]
    except ValueError as error:
        raise ValueError(f"checker: found {spec!r}, wanted numbers, like floats:1e-6 or floats:1e-6:1e-9") from error
    return (read[0], read[-1]) if read else ()


_RIGHT = Check(1.0)
_NAMED: Mapping[str, Checker] = {"tokens": Tokens(), "exact": Exact(), "lines": Lines(), "yesno": YesNo()}
_TOLERANT: Mapping[str, type[Floats]] = {"floats": Floats, "values": Values, "json": JsonValue}


def _compare_tokens(
    output: bytes, expected: bytes, same: Callable[[bytes, bytes], bool], *, may_differ: bool = False
) -> Check:
    """Compare token by token; `may_differ` if a token may differ from itself."""
    if output == expected and not may_differ:
        return _RIGHT
    wanted = expected.split()
    return _compare("token", output.split(None, len(wanted)), wanted, same)


def _compare(what: str, found: list[bytes], wanted: list[bytes], same: Callable[[bytes, bytes], bool]) -> Check:
    """Compare item by item; `found` holds one item more than `wanted` if the output is longer."""
    for place, (item, want) in enumerate(zip(found, wanted, strict=False), start=1):
        if not same(item, want):
            return Check(0.0, f"{what} {place} is wrong: {item[:_SHOWN_BYTES]!r}")
    if len(found) == len(wanted):
        return _RIGHT
    longer = len(found) > len(wanted)
    return Check(0.0, f"the output goes on after {what} {len(wanted)}" if longer else f"only {len(found)} {what}s")


def _is_same_word(token: bytes, want: bytes) -> bool:
    return token == want or (want.lower() in (b"yes", b"no") and token.lower() == want.lower())


def _may_have_not_finite(expected: bytes) -> bool:
    """Quick test for a token like nan or inf; may be True without one."""
    return any(part in expected for part in (b"nan", b"NaN", b"inf", b"Inf"))


def _number(token: bytes) -> float | None:
    if not _FLOAT.fullmatch(token):
        return None
    value = float(token)
    return value if math.isfinite(value) else None
