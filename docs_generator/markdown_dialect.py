"""Translate pages from the Markdown of code hosts to that of Python-Markdown, on which the site is built.

The pages in `docs/` are read on code hosts too, so they are written in GitHub's dialect. Python-Markdown wants four
spaces per level of a list, and a blank line before a list.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator

_FENCE = re.compile(r" *(`{3,})")
_ITEM = re.compile(r"(?P<marker>[-*+]|\d+\.)(?P<space> +)(?=\S)")
_FILE_COMMENT = re.compile(r"^( *)<!-- file: (\S+) -->\n( *```\w+)$", re.MULTILINE)
_LINK = re.compile(r"(?P<before>\]\()(?P<target>[^)\s]+)(?=\))")
_ROW = re.compile(r"^ *\|.*\|$", re.MULTILINE)  # of a table; its code needs no backslash before |
_CODE = re.compile(r"(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`)", re.DOTALL)


def python_markdown(text: str) -> str:
    """Return a page in the dialect of Python-Markdown."""
    text = _FILE_COMMENT.sub(r'\3 title="\2"', text)
    text = _ROW.sub(lambda row: _CODE.sub(lambda code: code[0].replace(r"\|", "|"), row[0]), text)
    return "\n".join(_indented(text.splitlines())) + "\n"


def _indented(lines: list[str]) -> Iterator[str]:
    """Yield the lines with four spaces per level of a list."""
    contents: list[int] = []  # column of the text of each open list item
    fence, shift = "", 0
    after_blank, in_items = True, False  # in_items: the lines since the last blank one began with an item
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if fence:
            found = _FENCE.match(line)
            if found and line.strip() == fence:
                fence = ""
            yield " " * max(indent + shift, 0) + line.lstrip() if line.strip() else ""
            continue
        if not line.strip():
            after_blank = True
            yield ""
            continue
        while contents and indent < contents[-1]:
            contents.pop()
        wanted = 4 * len(contents) + indent - (contents[-1] if contents else 0)
        item = _ITEM.match(line, indent)
        if after_blank:
            in_items = bool(item)
        if item:
            if not in_items:
                yield ""
            in_items = True
            contents.append(item.end())
        elif opened := _FENCE.match(line):
            fence, shift = opened[1], wanted - indent
        after_blank = False
        yield " " * wanted + line.lstrip()


def relinked(text: str, page: str, place: Callable[[str], str]) -> str:
    """Return a page with the targets of its relative links replaced.

    Args:
        text: Markdown of the page.
        page: Path of the page in the repository; its links are relative to it.
        place: Maps the path of a linked file in the repository to the new target, without an anchor.
    """

    def replace(match: re.Match[str]) -> str:
        file, sign, anchor = match["target"].partition("#")
        if not file or re.match(r"[a-z]+:", file):
            return match[0]
        return (
            match["before"] + place(posixpath.normpath(posixpath.join(posixpath.dirname(page), file))) + sign + anchor
        )

    prose, parts = True, []
    for part in re.split(r"(^ *`{3,}.*?^ *`{3,}$)", text, flags=re.MULTILINE | re.DOTALL):
        parts.append(_outside_of_code(part, replace) if prose else part)
        prose = not prose
    return "".join(parts)


def _outside_of_code(text: str, replace: Callable[[re.Match[str]], str]) -> str:
    """Replace links, also those whose text is code; leave code that only looks like one."""
    code = [match.span() for match in _CODE.finditer(text)]

    def unless_code(match: re.Match[str]) -> str:
        return match[0] if any(start <= match.start() < end for start, end in code) else replace(match)

    return _LINK.sub(unless_code, text)
