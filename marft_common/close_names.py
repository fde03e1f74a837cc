"""Names that are close to a wrong one, for the end of an error message."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

MOST = 4


def close_names(wrong: str, known: Iterable[str] | Mapping[str, str], cutoff: float = 0.7) -> list[str]:
    """Return at most four known names: those that have the words of the wrong one, else those spelled like it.

    Args:
        wrong: Name that was given, like "--learning-rate" or "ppo".
        known: Names, or their help texts by name.
        cutoff: How much alike in spelling they must be, in [0, 1] (`difflib.get_close_matches`).
    """
    words = re.findall(r"[^\W_]+", wrong.lower())
    in_name, in_help = [], []
    for name, told in known.items() if isinstance(known, Mapping) else ((name, "") for name in known):
        parts = re.findall(r"[^\W_]+", name.lower())
        for start in range(len(parts) if words else 0):  # the words stand in the name one after the other
            if parts[start : start + len(words)] == words:
                in_name.append(name)
        if len(words) > 1 and isinstance(told, str) and " ".join(words) in told.lower():  # one word is in too many
            in_help.append(name)
    spelled = difflib.get_close_matches(wrong, list(known), n=MOST, cutoff=cutoff)
    return list(dict.fromkeys([*in_name, *spelled, *in_help]))[:MOST]


def did_you_mean(wrong: str, known: Iterable[str] | Mapping[str, str], cutoff: float = 0.7) -> str:
    """Return "; did you mean A or B?", or nothing where no name is close."""
    close = close_names(wrong, known, cutoff)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def close_or_all(wrong: str, known: Iterable[str]) -> str:
    """Return "; did you mean A or B?", or "; there are A, B, C" where no name is close."""
    return did_you_mean(wrong, known) or f"; there are {', '.join(known) or 'none'}"
