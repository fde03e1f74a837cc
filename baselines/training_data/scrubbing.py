"""Scrub texts of training data: credentials become their kind in brackets, control tokens are broken up or removed.

Findings are counted by kind and never shown. The table knows the usual forms of credentials; it cannot know a password
in free text. A `(?P<secret>...)` in a pattern is the part that is replaced, without it the whole match.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

SECRETS: Mapping[str, re.Pattern[str]] = {
    kind: re.compile(pattern)
    for kind, pattern in {
        "private key": r"-----BEGIN [A-Z ]*PRIVATE KEY[^-]*-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
        "Hugging Face token": r"\bhf_\w{20,}",
        "GitHub token": r"\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,})",
        "GitLab token": r"\bglpat-[\w-]{16,}",
        "Slack token": r"\bxox[abprs]-[\w-]{10,}",
        "AWS access key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
        "Google API key": r"\bAIza[\w-]{30,}",
        "Stripe key": r"\b[rs]k_(?:live|test)_\w{16,}",
        "API key": r"\bsk-[\w-]{20,}",
        "JSON web token": r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*",
        "bearer token": r"\b[Bb]earer\s+(?P<secret>[\w.~+/=-]{16,})",
        "password in a URL": r"(?<=://)[^/\s:@]*:(?P<secret>(?!\[)[^/\s@]+)(?=@)",
        "token in a URL": r"(?i)[?&](?:\w*token|\w*key|secret|password|sig|signature)=(?P<secret>(?!\[)[^&\s\"'<>]+)",
        "assigned secret": r"(?i)\b(?:\w*(?:api|access|secret|private)[_-]?key|\w*secret|\w*passwo?r?d|auth[_-]?token)"
        r"[\"']?\s*(?:=|:)\s*[\"']?(?P<secret>(?!\[)[^\s\"',;]{8,})",
    }.items()
}
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
        for kind, pattern in SECRETS.items():

            def replaced(found: re.Match[str], kind: str = kind) -> str:
                self.secrets[kind] += 1
                start, end = found.span("secret") if "secret" in found.re.groupindex else found.span()
                place = found.start()
                return f"{found[0][: start - place]}[{kind}]{found[0][end - place :]}"

            text = pattern.sub(replaced, text)
        return text
