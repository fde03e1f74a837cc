"""Names that are close to a wrong one, for the end of an error message."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping

MOST = 4


def close_names(
    wrong: str, known: Collection[str], help_texts: Mapping[str, str] | None = None, cutoff: float = 0.6
) -> list[str]:
    """Return at most four known names: those that have the words of the wrong one, else those spelled like it.

    Args:
        wrong: Name that was given, like "--learning-rate" or "ppo".
        known: Names that there are.
        help_texts: Help texts by name, in which the words may stand too.
        cutoff: How much alike in spelling they must be, in [0, 1] (`difflib.get_close_matches`).
    """
    words = re.findall(r"[^\W_]+", wrong.lower())
    in_name, in_help = [], []
    for name in known:
        parts = re.findall(r"[^\W_]+", name.lower())
        for start in range(len(parts) if words else 0):  # the words stand in the name one after the other
            if parts[start : start + len(words)] == words:
                in_name.append(name)
        told = (help_texts or {}).get(name, "")
        if len(words) > 1 and " ".join(words) in told.lower():  # a single word stands in too many help texts
            in_help.append(name)
    spelled = difflib.get_close_matches(wrong, known, n=MOST, cutoff=cutoff)
    return list(dict.fromkeys([*in_name, *spelled, *in_help]))[:MOST]


def did_you_mean(
    wrong: str, known: Collection[str], help_texts: Mapping[str, str] | None = None, cutoff: float = 0.6
) -> str:
    """Return "; did you mean A or B?", or nothing where no name is close."""
    close = close_names(wrong, known, help_texts, cutoff)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def close_or_all(wrong: str, known: Collection[str]) -> str:
    """Return "; did you mean A or B?", or "; there are A, B, C" where no name is close."""
    return did_you_mean(wrong, known) or f"; there are {', '.join(known) or 'none'}"
