"""Word count of a text, for normalising an action's log-prob."""

from __future__ import annotations

import re

CHARACTER = re.compile(
    "["
    "\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U00020000-\U0003ffff"  # Han, supplementary planes
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9d\U0001b000-\U0001b16f"  # kana
    "\uac00-\ud7a3"  # Hangul syllables
    "]"
)


def count_words(text: str) -> int:
    """Count the words of a text, split at white space; each Han, kana or Hangul character is a word of its own.

    Punctuation beside such characters counts as 0. Other text between them counts as 1 if it holds a letter or digit.

    Example:
        >>> count_words("Add 2 + 3, then stop."), count_words("  ")
        (6, 0)
        >>> count_words("答案是 5。"), count_words("共有12个苹果，每个3元。")
        (4, 10)
    """
    words = 0
    for piece in text.split():
        characters = len(CHARACTER.findall(piece))
        between = CHARACTER.split(piece) if characters else []
        words += characters + sum(any(c.isalnum() for c in run) for run in between) if characters else 1
    return words
