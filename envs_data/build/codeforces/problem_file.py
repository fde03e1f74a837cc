"""Parser for the Markdown file of a problem: statement, examples, checker, and solutions with expected verdicts.

A file has front matter (title, rating, tags, checker, time_limit in s, memory_limit in MB), the description, and
sections. Input, Output and Examples (alternating fences `in` and `out`) are required, Note and Checker are optional.
Each solution has a section titled with its verdict, its language and, unless it is correct, its idea, as in
"WA python: greedy".
"""

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "problems"
LEVELS = (("easy", 1200), ("medium", 1600), ("hard", 2001))
"""Levels with the rating that is too much for them."""

_SOLUTION = re.compile(r"(?P<verdict>[A-Z]+) (?P<language>python|c\+\+17)(?:: (?P<idea>.+))?")
_FENCE = re.compile(r"^```(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Solution:
    """Correct or wrong program for a problem.

    Attributes:
        verdict: Expected verdict of the judge, a value of `marft_envs.sandbox.Verdict`.
        language: Language of the source, "python" or "c++17".
        idea: Reason why it is wrong or slow; empty for a reference solution.
        source: Source text of the program.
    """

    verdict: str
    language: str
    idea: str
    source: str


@dataclass(frozen=True)
class Problem:
    """Problem as parsed from its file.

    Attributes:
        slug: Name of its two files.
        title: Title of the problem.
        rating: Difficulty in the scale of Codeforces, 800 to 2000.
        tags: Topics of the problem.
        time_limit: CPU time per test in seconds.
        memory_limit: Memory per test in MB.
        checker: Comparison of outputs: tokens, yesno, floats:TOLERANCE, or custom for `generated_checker`.
        description: Statement without the formats of input and output.
        input_format: Format of the input with all bounds.
        output_format: Format of the output.
        note: Explanation of the examples; may be empty.
        examples: Pairs of input and output.
        generated_checker: Source of `checker.py INPUT CORRECT FOUND`, which prints 1 or 0; or None.
        solutions: All solutions, the references first.
    """

    slug: str
    title: str
    rating: int
    tags: tuple[str, ...]
    time_limit: float
    memory_limit: float
    checker: str
    description: str
    input_format: str
    output_format: str
    note: str
    examples: tuple[tuple[str, str], ...]
    generated_checker: str | None
    solutions: tuple[Solution, ...]

    @property
    def level(self) -> str:
        """Level by rating: easy, medium or hard."""
        return next(name for name, limit in LEVELS if self.rating < limit)

    @property
    def reference(self) -> str:
        """Source of the Python reference solution, which computes the outputs."""
        return next(each.source for each in self.solutions if (each.verdict, each.language) == ("OK", "python"))


def slugs() -> tuple[str, ...]:
    """Return the names of all problems in alphabetical order."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.md")))


def read(slug: str) -> Problem:
    """Parse the file of a problem.

    Raises:
        ValueError: A part is missing or has an unknown name.
    """
    _, front, body = (FOLDER / f"{slug}.md").read_text("utf-8").split("---\n", 2)
    facts = dict(line.split(": ", 1) for line in front.splitlines())
    parts = re.split(r"^## (.+)$", body, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))
    try:
        return Problem(
            slug=slug,
            title=facts["title"],
            rating=int(facts["rating"]),
            tags=tuple(facts["tags"].split(", ")),
            time_limit=float(facts["time_limit"]),
            memory_limit=float(facts["memory_limit"]),
            checker=facts["checker"],
            description=_unwrapped(parts[0]),
            input_format=_unwrapped(sections.pop("Input")),
            output_format=_unwrapped(sections.pop("Output")),
            note=_unwrapped(sections.pop("Note", "")),
            examples=_examples(sections.pop("Examples")),
            generated_checker=_code(sections.pop("Checker")) if facts["checker"] == "custom" else None,
            solutions=tuple(_solution(heading, text) for heading, text in sections.items()),
        )
    except (KeyError, ValueError) as error:
        raise ValueError(f"{slug}.md: {error!r}; see the docstring of {__name__} for its parts") from error


def _unwrapped(text: str) -> str:
    """Join the lines of each paragraph; lists keep their lines."""
    return re.sub(r"(?<!\n)\n(?!\n|- )", " ", text.strip())


def _examples(text: str) -> tuple[tuple[str, str], ...]:
    found = _FENCE.findall(text)
    if [kind for kind, _ in found] != ["in", "out"] * (len(found) // 2):
        raise ValueError(f"fences {[kind for kind, _ in found]} of Examples: wanted in and out in turn")
    return tuple((found[i][1], found[i + 1][1]) for i in range(0, len(found), 2))


def _code(text: str) -> str:
    ((_, source),) = _FENCE.findall(text)
    return str(source)


def _solution(heading: str, text: str) -> Solution:
    found = _SOLUTION.fullmatch(heading)
    if found is None:
        raise ValueError(f"unknown section {heading!r}")
    return Solution(found["verdict"], found["language"], found["idea"] or "", _code(text))
