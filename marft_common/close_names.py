"""Names that are close to a wrong flag, command or choice, for the end of an error message."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

MOST = 4


def close_names(wrong: str, known: Mapping[str, str]) -> list[str]:
    """Return at most four known names: those that have the words of the wrong one, else those spelled like it.

    Args:
        wrong: Name that was given, like "--learning-rate" or "ppo".
        known: Help text by name, or nothing for a name without one.
    """
    words = re.findall(r"[^\W_]+", wrong.lower())
    in_name, in_help = [], []
    for name, told in known.items():
        parts = re.findall(r"[^\W_]+", name.lower())
        for start in range(len(parts) if words else 0):  # the words stand in the name one after the other
            if parts[start : start + len(words)] == words:
                in_name.append(name)
        if len(words) > 1 and " ".join(words) in told.lower():  # a single word stands in too many help texts
            in_help.append(name)
    spelled = difflib.get_close_matches(wrong, known, n=MOST, cutoff=0.7)
    return list(dict.fromkeys([*in_name, *spelled, *in_help]))[:MOST]


def did_you_mean(wrong: str, known: Mapping[str, str]) -> str:
    """Return "; did you mean A or B?", or nothing where no name is close."""
    close = close_names(wrong, known)
    return f"; did you mean {' or '.join(close)}?" if close else ""
