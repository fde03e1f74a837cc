"""A programming problem as data: the prompt of the team, and the hidden tests of the judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from marft_envs.sandbox.checkers import AnyChecker
from marft_envs.sandbox.judge_data import Limits, Test

LANGUAGES = ("python", "c++")
_NAMES = {"python": "Python 3 (standard library only)", "c++": "C++17", "c++17": "C++17", "c++20": "C++20"}
_FENCES = {"python": "```python", "c++": "```cpp"}
_SHOWN_CHARS = 2000


def family(language: str) -> str:
    """Return the language without its standard: "c++" of "c++20"."""
    return "c++" if language.startswith("c++") else language


@dataclass(frozen=True)
class Problem:
    r"""One problem.

    Attributes:
        id: Unique in its set.
        statement: Text of the problem.
        title: One line; may be empty, as the following texts.
        input_format: Format of the input.
        output_format: Format of the output.
        note: Explanation of the examples.
        examples: Public tests, shown in the prompt and used for feedback.
        tests: Hidden tests; they leave this object for the judge only.
        limits: Limits of each test.
        checker: Spec, or checker; see `marft_envs.sandbox.checkers`.
        languages: Languages in which it can be solved.
        preamble: Python code before the program, if a function is asked for.
        driver: Python code after it, which calls the function; empty for programs that read standard input.
        meta: Rating, tags (joined by commas), origin, ...; public.
    """

    id: str
    statement: str
    title: str = ""
    input_format: str = ""
    output_format: str = ""
    note: str = ""
    examples: tuple[Test, ...] = ()
    tests: tuple[Test, ...] = field(default=(), repr=False)
    limits: Limits = field(default_factory=Limits)
    checker: str | AnyChecker = field(default="tokens", repr=False)
    languages: tuple[str, ...] = LANGUAGES
    preamble: str = field(default="", repr=False)
    driver: str = field(default="", repr=False)
    meta: Mapping[str, str | int | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (self.examples or self.tests):
            raise ValueError(f"problem {self.id!r}: no tests, wanted at least one: nothing could be judged")

    @cached_property
    def all_tests(self) -> tuple[Test, ...]:
        """The examples, then the hidden tests that are not among them."""
        return self.examples + self.hidden

    @cached_property
    def hidden(self) -> tuple[Test, ...]:
        """The hidden tests that are not among the examples; an input counts once."""
        known = {test.input.strip() for test in self.examples}
        return tuple(test for test in self.tests if test.input.strip() not in known)

    def allowed(self, languages: Sequence[str]) -> tuple[str, ...]:
        """Return those of the languages in which this problem can be solved."""
        return tuple(language for language in languages if family(language) in map(family, self.languages))

    def complete(self, source: str) -> str:
        """Return the full source to run for a program, with preamble and driver."""
        return "\n".join(part for part in (self.preamble, source, self.driver) if part)

    def prompt(self, languages: Sequence[str] = LANGUAGES, *, instructions: bool = True) -> str:
        """Return the prompt of the team.

        Args:
            languages: Allowed languages of an answer.
            instructions: True ends it with two sentences on the limits and the form of the answer.
        """
        allowed = self.allowed(languages)
        parts = [self.title, self.statement]
        if self.input_format:
            parts.append(f"Input:\n{self.input_format}")
        if self.output_format:
            parts.append(f"Output:\n{self.output_format}")
        for number, test in enumerate(self.examples, start=1):
            shown = f"Example {number}, input:\n{clip(test.input)}\nExample {number}, output:\n{clip(test.output)}"
            parts.append(shown)
        if self.note:
            parts.append(f"Note:\n{self.note}")
        if instructions:
            parts += self._instructions(allowed)
        return "\n\n".join(part for part in parts if part)

    def _instructions(self, allowed: Sequence[str]) -> list[str]:
        what = "the function" if self.driver else "one whole program, from standard input to standard output,"
        names = " or ".join(_NAMES.get(language, language) for language in allowed)
        # C++17 and C++20 have one fence, which is named once.
        fences = " or ".join(dict.fromkeys(_FENCES.get(family(language), f"```{language}") for language in allowed))
        return [
            f"Limits: {self.limits.cpu_s:g} s and {self.limits.memory_mb} MB a test.",
            f"The answer is {what} in {names}, in a block that begins with {fences} and ends with ```.",
        ]


def clip(content: bytes | str, most_chars: int = _SHOWN_CHARS) -> str:
    """Return text to show: decoded, without blank ends, and cut to a maximal length."""
    if isinstance(content, bytes):
        content = content[: 8 * most_chars].decode("utf-8", "replace")
    text = content.strip("\r\n")
    return text if len(text) <= most_chars else f"{text[:most_chars]} [...]"
