r"""Tokenizer for LaTeX, plain or Python-style answers.

Layout (``$``, ``\left``, ``\,``, ``\displaystyle``, ...) is dropped, and aliases get one spelling
(``\leqslant`` is ``<=``, ``**`` is ``^``). Letters become variables, function names or words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from marft_envs.grading.limits import MAX_TOKENS, LimitExceededError
from marft_envs.grading.vocabulary import (
    COMMAND_ALIASES,
    CONSTANT_NAMES,
    FUNCTIONS,
    GREEK,
    LAYOUT_COMMANDS,
    LAYOUT_WITH_ARGUMENT,
    SHORT_WORDS,
    SYMBOL_ALIASES,
    TEXT_COMMANDS,
    UNIT_NAMES,
)


class Token(NamedTuple):
    """One token: `kind` is number, repeating, based, variable, function, word, or mark (all others)."""

    kind: str
    text: str


_TOKEN = re.compile(
    r"(?P<space>(?:\s|~|\$|\\[,!;:> \n()\[\]]|&nbsp;)+)"
    r"|(?P<repeating>\d{0,50}\.\d{0,50}\\(?:overline|bar|dot)\s?(?:\{\d{1,50}\}|\d)(?:\d{0,50}\\dot\s?\{?\d\}?)?"
    r"|\d{1,50}\.\d{1,50}(?:\.\.\.|\\[lc]?dots)|\d{1,50}\.\d{0,50}\(\d{1,50}\))"
    r"|(?P<based>(?:\d|[A-F](?=\d))[0-9A-F]{0,60}_(?:\{\s?\d{1,2}\s?\}|\{\s?\\text\s?\{\s?[a-z]{3,7}\s?\}\s?\}|\d{1,2}(?!\d)))"
    r"|(?P<number>\d{1,3}(?:(?:,\\!\s?|\{,\}|,|\\,|\s)\d{3})+(?!\d)(?:\.\d+)?"
    r"|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3}(?![\dA-Za-z]))?)"
    r"|(?P<command>\\[A-Za-z]+\*?)"
    r"|(?P<letters>[A-Za-z]+)"
    r"|(?P<word>[^\W\d_]+)"
    r"|(?P<symbol>\\\\(?:\[[^\]]{0,9}\])?|\\.|\*\*|<=|>=|!=|==|\.\.\.|.)",
    re.DOTALL,
)
_MERIDIEM = re.compile(r"\b([ap])\.\s?m\.", re.IGNORECASE)
_UNIT_IN_BRACES = re.compile(r"(?<=\d)\s?\{\s?([A-Za-z]{2,12})\s?\}")
_ESCAPED_TWICE = re.compile(r"\\{2}(?=(?:[dt]?frac|left|right|sqrt|text|begin|end|boxed|mathrm)(?![a-z]))")
_DIGITS_IN_TEXT = re.compile(r"\\(?:text|mathrm)\s?\{\s?([0-9A-F]{1,60})\s?\}\s?(?=_)")
_TRAILING = frozenset({".", ",", ";", ":", "!?"})


def tokenize(text: str) -> tuple[Token, ...]:
    """Split an answer into tokens.

    Args:
        text: Plain characters (`characters.plain_characters`), at most `MAX_ANSWER_CHARS` of them.

    Raises:
        LimitExceededError: More than `MAX_TOKENS` tokens.
    """
    if "{" in text:
        text = _DIGITS_IN_TEXT.sub(r"\1", text)
        text = _ESCAPED_TWICE.sub(r"\\", _UNIT_IN_BRACES.sub(r"\\text{\1}", text))
    reader = _Reader(_MERIDIEM.sub(r"\1m ", text) if "m." in text.lower() else text)
    reader.read()
    tokens = reader.tokens
    while tokens and tokens[-1].text in _TRAILING:
        tokens.pop()
    while tokens and tokens[0].text in ("=", "approx", ":", "to"):
        tokens.pop(0)
    return tuple(tokens)


class _Reader:
    r"""One pass over the text; `text_depths` are the brace depths at which a ``\text{`` group is open."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.depth = 0
        self.brackets = 0
        self.text_depths: list[int] = []
        self.tokens: list[Token] = []

    def read(self) -> None:
        length = len(self.text)
        while self.position < length:
            match = _TOKEN.match(self.text, self.position)
            if match is None:  # the last alternative takes any character
                raise LimitExceededError("unreadable character")
            self.position = match.end()
            kind = match.lastgroup or ""
            if kind != "space":
                _READERS[kind](self, match.group())
                if len(self.tokens) > MAX_TOKENS:
                    raise LimitExceededError(f"more than {MAX_TOKENS} tokens")

    def _add(self, kind: str, text: str) -> None:
        self.tokens.append(Token(kind, text))

    def _repeating(self, text: str) -> None:
        self._add("repeating", text)

    def _based(self, text: str) -> None:
        self._add("based", text)

    def _number(self, text: str) -> None:
        if "," in text and self.brackets and "{" not in text and "\\" not in text:
            for index, part in enumerate(text.split(",")):  # inside brackets (1,234) is a pair
                if index:
                    self._add("mark", ",")
                self._add("number", part)
            return
        self._add("number", re.sub(r"[^\d.eE+-]", "", text) if not text.isdigit() else text)

    def _command(self, text: str) -> None:
        name = text[1:].rstrip("*")
        if name in ("frac", "dfrac", "tfrac", "cfrac", "sfrac", "nicefrac"):
            self._add("mark", "frac")
        elif name in TEXT_COMMANDS:
            self._open_text()
        elif name in CONSTANT_NAMES:
            self._add("variable", CONSTANT_NAMES[name])
        elif name in COMMAND_ALIASES:
            self._add("mark", COMMAND_ALIASES[name])
        elif name in FUNCTIONS and name != "sqrt":
            self._add("function", name)
        elif name in GREEK:
            self._add("variable", name.removeprefix("var"))
        elif name in LAYOUT_COMMANDS:
            if name in ("left", "right") and self.text.startswith(".", self.position):
                self.position += 1
        elif name in LAYOUT_WITH_ARGUMENT:
            self._skip_argument()
        else:
            self._add("mark", {"dbinom": "binom", "tbinom": "binom", "Bbb": "mathbb", "bmod": "mod"}.get(name, name))

    def _open_text(self) -> None:
        while self.text.startswith((" ", "\n"), self.position):
            self.position += 1
        if self.text.startswith("{", self.position):
            self.text_depths.append(self.depth)

    def _skip_argument(self) -> None:
        end = self.text.find("}", self.position, self.position + 40)
        if self.text.startswith("{", self.position) and end > 0:
            self.position = end + 1

    def _letters(self, text: str) -> None:
        lower = text.lower()
        if self.text_depths and self.depth > self.text_depths[-1]:
            if len(text) == 1 and (not self._after_value() or (text in "ie" and self.tokens[-1].kind != "word")):
                self._add("variable", text)  # 5\mathrm{i}: i and e are never units
            elif lower in FUNCTIONS and lower not in ("min", "max"):
                self._add("function", lower)
            else:
                self._add("word", text)
        elif lower in ("st", "nd", "rd", "th") and self.tokens and self.tokens[-1].kind == "number":
            return
        elif text in FUNCTIONS and not (text == "min" and self._after_value()):
            self._add("mark" if text == "sqrt" else "function", text)
        elif lower in CONSTANT_NAMES:
            self._add("variable", CONSTANT_NAMES[lower])
        elif len(text) == 1:
            self._add("variable", text)
        elif len(text) >= 4 or lower in SHORT_WORDS or (lower in UNIT_NAMES and self._after_value()):
            self._add("word", text)
        else:
            self._add("letters", text)

    def _after_value(self) -> bool:
        if not self.tokens:
            return False
        kind, text = self.tokens[-1]
        return kind in ("number", "repeating", "based", "word") or text in (")", "}", "pi", "/", "%", "!")

    def _word(self, text: str) -> None:
        self._add("word", text)

    def _symbol(self, text: str) -> None:
        if text in "{}" and self._is_text_brace(text):
            return
        if text == "." and self.tokens and self.tokens[-1].kind == "word":
            return  # an abbreviation: sq. units
        if text in ("(", "[", "\\{"):
            self.brackets += 1
        elif text in (")", "]", "\\}"):
            self.brackets -= 1
        if text.startswith(r"\\"):
            text = r"\\"
        self._add("mark", SYMBOL_ALIASES.get(text, text))

    def _is_text_brace(self, brace: str) -> bool:
        """Count a brace; return True if it delimits a text group, which produces no token."""
        opened = self.text_depths[-1] if self.text_depths else None
        if brace == "{":
            self.depth += 1
            return opened == self.depth - 1
        self.depth -= 1
        if opened == self.depth:
            self.text_depths.pop()
        return opened == self.depth


_READERS: dict[str, Callable[[_Reader, str], None]] = {
    "repeating": _Reader._repeating, "based": _Reader._based, "number": _Reader._number,
    "command": _Reader._command, "letters": _Reader._letters, "word": _Reader._word, "symbol": _Reader._symbol,
}  # fmt: skip
