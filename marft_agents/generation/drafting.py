"""Drafting by prompt lookup: guess the next tokens of an action, so that one pass can confirm several of them.

Agents repeat what they read: names, numbers, the form of a call. A row's guess is what followed the last time that its
latest tokens occurred in its prompt or its action. Every token is sampled as without guesses, with the same uniform
number. A guess only decides which logits are there in time: those behind it count if the sampled tokens equal it. So
the sampling distribution stays exact. (Prompt lookup decoding; verified as in arXiv 2211.17192 with a draft that is
certain of its tokens.)
"""

from __future__ import annotations

from collections.abc import Sequence

LONGEST_DRAFT = 3
NGRAMS = (4, 3, 2)  # latest tokens to look for, the longest first
RATE = 0.1  # of the running share of right guesses
CONTINUES = 0.8  # chance that a right token of a guess is followed by another one, in worlds of tools


class PromptLookup:
    """The tokens of a row, and where each of their n-grams occurred last.

    Args:
        tokens: Token ids of the prompt.
    """

    def __init__(self, tokens: Sequence[int]) -> None:
        self._tokens = list(tokens)
        self._after: dict[tuple[int, ...], int] = {}  # n-gram -> index of the token behind its last occurrence
        for size in NGRAMS:  # of a long prompt at once: token by token costs as much as a few passes of a small model
            ngrams = zip(*(self._tokens[k:] for k in range(size)), strict=False)
            self._after.update(zip(ngrams, range(size, len(tokens)), strict=False))

    def copy(self) -> PromptLookup:
        """Return a copy, for another row with the same prompt; it costs a tenth of a new one."""
        copy = PromptLookup(())
        copy._tokens, copy._after = self._tokens.copy(), self._after.copy()
        return copy

    def extend(self, tokens: Sequence[int]) -> None:
        """Append tokens."""
        for token in tokens:
            end = len(self._tokens)
            for size in NGRAMS:
                if end >= size:
                    self._after[tuple(self._tokens[end - size :])] = end
            self._tokens.append(token)

    def guess(self) -> list[int]:
        """Return at most `LONGEST_DRAFT` tokens that may follow; none if the latest tokens did not occur before."""
        for size in NGRAMS:
            at = self._after.get(tuple(self._tokens[-size:]))
            if at is not None:
                return self._tokens[at : at + LONGEST_DRAFT]
        return []


class DraftLength:
    """Chooses the length of drafts by their expected gain.

    The share of rows whose first guessed token was right is known in every pass, also where no guess was run.

    Args:
        fixed_cost: Cost of a pass in units of the cost of one more token in it, for the device.
    """

    def __init__(self, fixed_cost: float) -> None:
        self._fixed_cost = fixed_cost
        self._share = 0.0

    def observe(self, right: int, rows: int) -> None:
        """Take in how many of the rows had a right guess of their next token."""
        self._share += RATE * (right / rows - self._share)

    def best(self, rows: int) -> int:
        """Return the length that generates most tokens for its cost, 0 for no draft."""
        best, most = 0, 0.0
        for length in range(LONGEST_DRAFT + 1):
            # Expected right guesses of a row: the first is right with the share p, each next one with c given that.
            gain = self._share * (1 - CONTINUES**length) / (1 - CONTINUES)
            tokens_per_cost = (1 + gain) / (self._fixed_cost + rows * (1 + length))
            if tokens_per_cost > most:
                best, most = length, tokens_per_cost
        return best
