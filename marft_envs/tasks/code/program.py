"""Extraction of the program in an answer: the last fenced block in an allowed language.

The tag of the block names the language; for an untagged block it is guessed from the content. Text outside of blocks
is never a program. Time is linear in the length of any answer: no regular expression runs over more than a line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

MAX_PROGRAM_CHARS = 65536  # the limit of Codeforces itself
_FENCE = re.compile(r"[ \t]{0,40}(`{3,40}|~{3,40})[ \t]*([^`\s]{0,40})[^`]{0,200}")
_TAGS = {
    **dict.fromkeys(("python", "py", "python3", "py3", "pypy", "pypy3"), "python"),
    **dict.fromkeys(("cpp", "c++", "cc", "cxx", "cplusplus", "gcc", "g++"), "c++"),
    **dict.fromkeys(("c++11", "c++14", "c++17", "c++20", "c++23", "cpp11", "cpp14", "cpp17", "cpp20", "cpp23"), "c++"),
}
_LOOKS = {
    "c++": re.compile(r"[ \t]*(#[ \t]*include\b|using namespace\b|int main\b)"),
    "python": re.compile(
        r"[ \t]*(import \w|from \w+ import\b|def \w+\(|class \w+|for \w[\w, ]* in\b|while .{1,80}:|print\(|"
        r"\w[\w, \[\]]*=[ \t]*.{0,80}\binput\()"
    ),
}
_LOOKED_AT_LINES = 400


class Program(NamedTuple):
    """A program in an answer.

    Attributes:
        source: Source text of the program.
        language: "python" or "c++".
    """

    source: str
    language: str


def extract_program(answer: str, languages: Collection[str] = ("python", "c++")) -> Program | None:
    r"""Return the last program of an answer, or None.

    Args:
        answer: Any text; the last block may lack its end (a truncated answer).
        languages: Allowed languages: "python", "c++"; blocks in others are skipped.

    Examples:
        >>> extract_program("First I read n.\n```python\nprint(int(input()) * 2)\n```").source
        'print(int(input()) * 2)\n'
    """
    tagged, looking = None, None
    for tag, source in _blocks(answer):
        if not source.strip() or len(source) > MAX_PROGRAM_CHARS:
            continue
        if tag:
            language = _TAGS.get(tag)
            tagged = Program(source, language) if language in languages and language else tagged
        else:
            language = _language_by_looks(source)
            looking = Program(source, language) if language in languages and language else looking
    return tagged or looking


def _blocks(answer: str) -> Iterator[tuple[str, str]]:
    """Yield tag and content of each fenced block; a tagged fence also ends a block that was not closed."""
    fence, tag, lines = "", "", list[str]()
    for line in answer.split("\n"):
        found = _FENCE.fullmatch(line.rstrip()) if "```" in line or "~~~" in line else None
        mark, info = (found[1], _tag(found[2])) if found else ("", "")
        if not fence:
            fence, tag, lines = mark, info, []
        elif mark.startswith(fence) and not info:
            yield tag, _dedent(lines)
            fence = ""
        elif mark and info in _TAGS:
            yield tag, _dedent(lines)
            fence, tag, lines = mark, info, []
        else:
            lines.append(line)
    if fence:
        yield tag, _dedent(lines)


def _tag(info: str) -> str:
    return next((word for word in re.split(r"[^a-z0-9+#]+", info.lower()) if word), "")


def _dedent(lines: list[str]) -> str:
    """Remove common leading blanks (a block inside a list) and Windows line ends."""
    widths = [len(line) - len(line.lstrip(" ")) for line in lines if line.strip()]
    common = min(widths, default=0)
    return "\n".join(line[common:].rstrip("\r") for line in lines).rstrip() + "\n"


def _language_by_looks(source: str) -> str | None:
    lines = source.split("\n", _LOOKED_AT_LINES)[:_LOOKED_AT_LINES]
    for name, look in _LOOKS.items():
        if any(look.match(line[:200]) for line in lines):
            return name
    return None
