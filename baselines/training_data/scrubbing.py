"""Scrub texts of training data: credentials become their kind in brackets, control tokens are broken up or removed.

Findings are counted by kind and never shown. `baselines.experiment.credentials` knows the usual forms of
credentials; it cannot know a password in free text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from baselines.experiment.credentials import credentials_in

CONTROL_TOKEN = re.compile(
    r"<\|[A-Za-z][\w ]{0,30}\|>|</?s>|<(?:start|end)_of_turn>|<(?:bos|eos|pad|unk)>|\[/?INST\]|<</?SYS>>|"
    r"<｜[^｜<>]{1,40}｜>"
)


class Scrubber:
    """Replaces credentials and control tokens in texts, and counts them.

    Args:
        symbols: Special tokens of a tokenizer, beside the usual ones of `CONTROL_TOKEN`.

    Attributes:
        secrets: Number of credentials replaced so far, by kind.
        control_tokens: Number of control tokens so far in "prompts", where they are broken up, and in "completions",
            where they are removed.
    """

    def __init__(self, symbols: Sequence[str] = ()) -> None:
        self.secrets: Counter[str] = Counter()
        self.control_tokens: Counter[str] = Counter()
        own = sorted((symbol for symbol in symbols if len(symbol) > 1), key=len, reverse=True)
        self._control = re.compile("|".join([*map(re.escape, own), CONTROL_TOKEN.pattern]))

    def prompt(self, text: str) -> str:
        """Return a message of a prompt: control tokens are broken up, as the chat template's encoding does."""
        text, count = self._control.subn(lambda found: f"{found[0][0]} {found[0][1:]}", self._without_secrets(text))
        self.control_tokens["prompts"] += count
        return text

    def completion(self, text: str) -> str:
        """Return an action without control tokens: an agent must not learn to spell them."""
        text, count = self._control.subn("", self._without_secrets(text))
        self.control_tokens["completions"] += count
        return text

    def _without_secrets(self, text: str) -> str:
        parts, end = [], 0
        for found in credentials_in(text):
            self.secrets[found.kind] += 1
            parts += [text[end : found.start], f"[{found.kind}]"]
            end = found.end
        return "".join([*parts, text[end:]])
