"""The written pages of the repository as data: their fenced blocks, in order."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = tuple(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md", *DOCS)
QUOTING = tuple(page for page in DOCS if page.startswith("docs/libraries/"))  # their Python is quoted from scripts
INDEX = "docs/README.md"
_FENCE = re.compile(
    r"(?:<!-- file: (?P<file>[\w./]+) -->\n)?"
    r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: The page, relative to the repository.
        line: Where its fence stands.
        language: What follows the fence.
        file: The file that the page says it is; None where it does not.
        text: What it holds.
        follows: It follows the block before it with nothing but blank lines between.
    """

    page: str
    line: int
    language: str
    file: str | None
    text: str
    follows: bool

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


@cache
def blocks(page: str) -> tuple[Block, ...]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found, end = [], 0
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start("language")) + 1
        follows = bool(found) and not text[end : match.start()].strip()
        found.append(Block(page, line, match["language"], match["file"], match["text"], follows))
        end = match.end()
    return tuple(found)


def every_block(*languages: str) -> list[Block]:
    return [block for page in PAGES for block in blocks(page) if block.language in languages]


def shown_output(block: Block) -> str | None:
    """Return the output that the page shows for a Python block: the text or drawing right below it."""
    own = blocks(block.page)
    place = own.index(block) + 1
    below = own[place] if place < len(own) else None
    return below.text if below and below.follows and below.language in ("text", "mermaid") else None


def commands() -> list[tuple[str, str]]:
    """All commands of shell blocks and consoles, as (where, command); continued lines joined."""
    found = []
    for block in every_block("bash", "console"):
        for line in block.text.replace("\\\n", " ").splitlines():
            is_output = block.language == "console" and not line.startswith("$ ")
            command = line.strip().removeprefix("$ ")
            if command and not is_output and not command.startswith("#"):
                found.append((block.where, command))
    return found


def rows_of_the_index(heading: str = "") -> list[str]:
    """Pages that the tables of docs/README.md name, relative to the repository; those of one section, or all."""
    text = (ROOT / INDEX).read_text(encoding="utf-8")
    if heading:
        text = text.partition(f"\n## {heading}")[2].partition("\n## ")[0]
    targets = re.findall(r"^\| \[[^\]]+\]\(([^)#\s]+)", text, re.MULTILINE)
    return [os.path.normpath(os.path.join("docs", target)) for target in targets]
