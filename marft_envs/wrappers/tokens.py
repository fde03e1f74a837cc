"""Tokenizers: the interface that the wrappers need, and a small one that needs no model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol


class Tokenizer(Protocol):
    """Any converter from text to numbers and back; a tokenizer of transformers is one."""

    def __len__(self) -> int: ...

    def encode(self, text: str, /) -> list[int]:
        """Return ids from 0 to `len(self) - 1`."""

    def decode(self, ids: Sequence[int], /) -> str:
        """Return the text of ids."""


class VocabularyTokenizer:
    """A tokenizer over given tokens: the longest match is taken, text outside of the vocabulary is left out.

    The ids are the indices of the tokens; the end token comes last and has no text.

    Args:
        tokens: Single characters (or a string of them) or longer pieces of text.

    Raises:
        ValueError: A token is empty or there twice.

    Examples:
        >>> tokenizer = VocabularyTokenizer(["box", "b", "{", "}", "1"])
        >>> tokenizer.encode("box{1b}?"), tokenizer.decode([0, 2, 4, 3]), tokenizer.eos_token_id
        ([0, 2, 4, 1, 3], 'box{1}', 5)
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tuple(tokens)
        self._ids = {token: place for place, token in enumerate(self.tokens)}
        if "" in self._ids or len(self._ids) < len(self.tokens) or not self.tokens:
            raise ValueError("the tokens of a vocabulary must be there, all different and none of them empty")
        longest_first = sorted(self.tokens, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        self.eos_token_id = len(self.tokens)

    def __len__(self) -> int:
        return len(self.tokens) + 1

    def encode(self, text: str, /) -> list[int]:
        """Return the ids of a text, without an end token."""
        return [self._ids[token] for token in self._pattern.findall(text)]

    def decode(self, ids: Sequence[int], /) -> str:
        """Return the text of ids."""
        return "".join([self.tokens[id] for id in ids if id != self.eos_token_id])


def end_of(tokenizer: Tokenizer, end_token: int | None) -> int:
    """Return the end token: the one given, else the tokenizer's own.

    Raises:
        ValueError: There is none, or it is none of the vocabulary.
    """
    found: Any = getattr(tokenizer, "eos_token_id", None) if end_token is None else end_token
    if found is None or not 0 <= found < len(tokenizer):
        raise ValueError(f"end_token: found {found!r}, wanted an id from 0 to {len(tokenizer) - 1}")
    return int(found)
