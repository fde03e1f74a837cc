"""Text of data and models for a terminal: what a terminal obeys instead of showing is escaped."""

from __future__ import annotations

import re

# Control characters of both sets, marks that reorder text or have no width, separators, and halves of surrogate pairs.
HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)


def visible(text: str, *, lines: bool = True) -> str:
    r"""Return a text in which everything that a terminal would not show is an escape like `\u001b`.

    Escapes are those of JSON and TOML, so that a printed document stays one.

    Args:
        text: Text of any origin.
        lines: True keeps line breaks and tabs; False gives one line.

    Examples:
        >>> visible("a\x1b]0;title\x07b\nc"), visible("a\nb", lines=False)
        ('a\\u001b]0;title\\u0007b\nc', 'a\\u000ab')
    """
    if text.isascii() and text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    if lines:
        text = text.replace("\r\n", "\n")
    return HIDDEN.sub(lambda found: found[0] if found[0] in kept else _escape(found[0]), text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
