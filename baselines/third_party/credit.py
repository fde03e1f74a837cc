"""Does the reward at the end of a round reach those who spoke first? Asked of what each library computed itself.

Each script hands over the returns (the regression targets of the critic, made by the library's own estimator) of
its first speaker's stream of transitions. If the reward is lost on the way, the returns of games that were won and
of games that were lost begin alike, and the gap is 0; if it arrives, the gap is nearly the discounted reward, 1.
"""

from __future__ import annotations

from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Credit:
    """The returns of the first transition of each game, by how the game ended."""

    def __init__(self) -> None:
        self._first: dict[bool, list[float]] = {True: [], False: []}

    def add(self, returns: Any, rewards: Any, ends: Any) -> None:
        """Note the games of one rollout, which begins with a game; one that is cut off at its end is left out.

        Args:
            returns: Of each transition, in the order of time, shape [T] or what flattens to it.
            rewards: The team's, same shape.
            ends: True at the last transition of a game, same shape.
        """
        values, paid, over = (_flat(array) for array in (returns, rewards, ends))
        start = 0
        for end in np.flatnonzero(over):
            self._first[bool(paid[start : end + 1].sum() > 0)].append(float(values[start]))
            start = int(end) + 1

    def gap(self) -> float:
        """Return the mean return of a first action in games won, less that in games lost; nan without both."""
        if not (self._first[True] and self._first[False]):
            return float("nan")
        return fmean(self._first[True]) - fmean(self._first[False])


def _flat(array: Any) -> NDArray[np.float64]:
    """Read an array or a tensor of any library."""
    if hasattr(array, "detach"):
        array = array.detach().cpu().numpy()
    return np.asarray(array, np.float64).reshape(-1)
