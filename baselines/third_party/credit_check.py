"""Credit-assignment check: the team reward must reach the first speaker in each library's own returns.

Each script passes the returns of its first speaker's transitions. These are the regression targets of the critic, made
by the library's own estimator. If the reward gets lost, the first returns of won and lost games are alike and the gap
is 0. If it arrives, the gap is nearly the discounted reward, 1.
"""

from __future__ import annotations

from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Credit:
    """Returns of the first transition of each game, separated by won and lost games."""

    def __init__(self) -> None:
        self._first: dict[bool, list[float]] = {True: [], False: []}

    def add(self, returns: Any, rewards: Any, ends: Any) -> None:
        """Record the games of one rollout that starts with a new game; an unfinished last game is left out.

        Args:
            returns: Return of each transition in time order, shape [T] or any shape that flattens to it.
            rewards: Team reward of each transition, same shape.
            ends: True at the last transition of each game, same shape.
        """
        values, paid, over = (_flat(array) for array in (returns, rewards, ends))
        start = 0
        for end in np.flatnonzero(over):
            self._first[bool(paid[start : end + 1].sum() > 0)].append(float(values[start]))
            start = int(end) + 1

    def gap(self) -> float:
        """Return the mean first return of won games minus that of lost games; NaN if either kind is missing."""
        if not (self._first[True] and self._first[False]):
            return float("nan")
        return fmean(self._first[True]) - fmean(self._first[False])


def _flat(array: Any) -> NDArray[np.float64]:
    """Convert an array or tensor of any library to float64 of shape [T]."""
    if hasattr(array, "detach"):
        array = array.detach().cpu().numpy()
    return np.asarray(array, np.float64).reshape(-1)
