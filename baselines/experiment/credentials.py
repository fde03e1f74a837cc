"""Forms and names of credentials: one list for what is published and for training data.

The forms are those that providers document. A password in free text has none, so a name is needed: `password = ...`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

QUOTES = r"[\\\"'`]*"  # with their backslashes in JSON that stands in a text
# Each pattern begins with letters of its own where it can: `re` finds those fast.
FORMS: Sequence[tuple[str, re.Pattern[str]]] = [
    (kind, re.compile(pattern))
    for kind, *patterns in (
        (
            "private key",
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[^-]*-----[^-]*(?:-----END [A-Z0-9 ]*PRIVATE KEY[^-]*-----)?",
        ),
        ("Hugging Face token", r"hf_[A-Za-z0-9]{20,}"),
        ("GitHub token", r"gh[pousr]_[A-Za-z0-9]{20,}", r"github_pat_\w{20,}"),
        ("GitLab token", r"glpat-[\w-]{16,}"),
        ("Slack token", r"xox[a-z]-[\w-]{10,}", r"xapp-[\w-]{10,}", r"hooks\.slack\.com/services/[\w/]{10,}"),
        ("AWS access key", r"AKIA[0-9A-Z]{16}\b", r"ASIA[0-9A-Z]{16}\b"),
        ("Google API key", r"AIza[\w-]{30,}", r"ya29\.[\w-]{20,}", r"GOCSPX-[\w-]{20,}"),
        ("Stripe key", r"[rs]k_(?:live|test)_\w{16,}"),
        ("package index token", r"npm_[A-Za-z0-9]{30,}", r"pypi-[\w-]{40,}"),
        ("API key", r"sk-[\w-]{20,}", r"(?:gsk_|r8_|xai-|nvapi-|pplx-|tvly-)[A-Za-z0-9_-]{30,}"),
        ("JSON web token", r"eyJ[\w-]{8,2000}\.eyJ[\w-]{8,}\.[\w-]*"),
        ("bearer token", r"[Bb]earer\s+(?P<secret>[\w.~+/=-]{16,})"),
        (
            "basic authorization",  # "Basic" and base64, in which capitals follow small letters again and again
            r"Basic\s+(?P<secret>(?=\S*[a-z0-9][A-Z]\S*[a-z0-9][A-Z])[A-Za-z0-9+/]{8,}=*)",
        ),
        (
            "authorization header",
            rf"(?i)authorization{QUOTES}\s*[:=,]\s*{QUOTES}(?:basic|bearer|token|digest|apikey)\s+"
            r"(?P<secret>(?!\[)[^\s\"'\\]{4,})",
        ),
        (
            "key in a header",
            rf"(?i)x-(?:[a-z]{{1,20}}-){{0,4}}(?:key|token|secret|password){QUOTES}\s*[:=,]"
            rf"\s*{QUOTES}(?P<secret>(?![\[$<{{])[^\s\"'\\,;]{{4,}})",
        ),
        ("password in a URL", r"://(?!git@)(?:[^/\s:@?#]*:)?(?P<secret>(?!\[)[^/\s@?#]+)(?=@)"),
        (
            "token in a URL",
            r"(?i)[?&](?:\w*token|\w*key|secret|password|sig|signature)=(?P<secret>(?!\[)[^&\s\"'\\<>]+)",
        ),
    )
    for pattern in patterns
]
OF_A_URL = frozenset(("password in a URL", "token in a URL"))
ASSIGNED_KIND = "assigned secret"
# What is no value: a variable, a placeholder, a call, a type.
CODE = r"[\[$<{(]|(?:os|process|env|self|args|config|settings)\.|[\w.]+[(\[]"
VALUE = r"[^\s\"'`\\,;]"
ASSIGNED = re.compile(
    rf"(?:=>?|:(?!\s{{0,8}}[A-Za-z]+(?:[\s.,;:!?\"'\\]|$)))\s{{0,8}}{QUOTES}(?!{CODE})(?={VALUE}{{8}})"
)
WHOLE_VALUE = re.compile(rf"{VALUE}*")
ITS_NAME = re.compile(rf"(?:\\[nrt])?(?P<name>[\w-]+){QUOTES}\s{{0,8}}$")  # `\n` is an escaped line break
SHORTEST_WORD = 20  # characters of a form that is one word, such as that of AWS
LONGEST_NAME = 64  # characters
# Of `token = ...`, of which code is full: letters and digits, and nothing else.
ASSIGNED_TOKEN = re.compile(rf"(?=[A-Za-z_-]*\d)(?=[\d_-]*[A-Za-z])[\w.~+/=-]{{16,}}(?!{VALUE})")

WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
NAME = re.compile(
    r"(?:(?:api|access|secret|private|account|shared|storage|auth|signing|encryption|master|ssh|subscription|openai"
    r"|anthropic|azure|aws|gcp|hf)keys?|passwords?|passwd|passphrase|passcode|pwd|secrets?|credentials?|authorization"
    r"|connectionstring|setcookie|sessioncookie)$"
)
PASSWORD = re.compile(r"(?:passwords?|passwd|passphrase|passcode|pwd)$")  # which may be numbers
TOKEN = re.compile(r"token$")
OF_A_VOCABULARY = re.compile(
    r"(?:eos|bos|pad|padding|unk|unknown|cls|sep|mask|eot|eom|eoh|stop|end|start|begin|image|audio|video|vision|special"
    r"|control|next|last|first|prompt|added|per|each|any|new)token$"
)


class Credential(NamedTuple):
    """A credential in a text.

    Attributes:
        kind: Its form, as "GitHub token".
        start: Index of its first character.
        end: Index after its last one.
    """

    kind: str
    start: int
    end: int


def credentials_in(text: str) -> list[Credential]:
    """Return the credentials of a text in their order; the first form of the list wins an overlap."""
    if len(text) < SHORTEST_WORD and text.isidentifier():
        return []  # no form is one word so short; this skips most keys of records
    found: list[Credential] = []
    taken = bytearray(len(text))

    def add(kind: str, start: int, end: int) -> None:
        if not any(taken[start:end]):
            taken[start:end] = b"\1" * (end - start)
            found.append(Credential(kind, start, end))

    for kind, pattern in FORMS:
        for match in filter(_begins_word, pattern.finditer(text)):
            add(kind, *match.span("secret" if "secret" in pattern.groupindex else 0))
    for match in ASSIGNED.finditer(text):
        if not taken[match.end()] and (value := _assigned(match)) is not None:
            add(ASSIGNED_KIND, *value.span())
    return sorted(found, key=lambda one: one.start)


def _begins_word(match: re.Match[str]) -> bool:
    """Return True if no letter or digit stands before a match, other than that of an escaped line break."""
    text, start = match.string, match.start()
    is_inside = text[start].isalnum() and text[max(0, start - 1) : start].isalnum()
    return not is_inside or text[max(0, start - 2) : start] in ("\\n", "\\r", "\\t")


def _assigned(separator: re.Match[str]) -> re.Match[str] | None:
    """Return the value behind a separator if the name before it names a secret."""
    text, start = separator.string, separator.start()
    before = ITS_NAME.search(text, max(0, start - LONGEST_NAME), start)
    name = joined_words(before["name"]) if before else ""
    if NAME.search(name):
        return WHOLE_VALUE.match(text, separator.end())
    return ASSIGNED_TOKEN.match(text, separator.end()) if _is_token(name) else None


@lru_cache(maxsize=4096)
def names_a_secret(name: str) -> bool:
    """Return True for names such as `api_key`, `X-Api-Key`, `clientSecret` and `HF_TOKEN`; False for `eos_token`."""
    joined = joined_words(name)
    return bool(NAME.search(joined)) or _is_token(joined)


def names_a_password(name: str) -> bool:
    """Return True for a name under which a number is a secret too."""
    return bool(PASSWORD.search(joined_words(name)))


def joined_words(name: str) -> str:
    """Return a name in small letters without what separates its words.

    Examples:
        >>> joined_words("X-Api-Key"), joined_words("clientSecret")
        ('xapikey', 'clientsecret')
    """
    return "".join(WORDS.findall(name)).lower()


def _is_token(joined: str) -> bool:
    return bool(TOKEN.search(joined)) and not OF_A_VOCABULARY.search(joined)
