"""Error for NaN or infinite numbers in training, with the actions they came from."""

from __future__ import annotations

from marft_agents.learning.batch import Batch


class DivergenceError(FloatingPointError):
    """A loss, log-prob, value or gradient that is NaN or infinite.

    Args:
        where: Message: the number, the policy and update it belongs to, and advice.
        rows: Actions it was computed from: only the offending ones where they can be identified; None: all.
    """

    def __init__(self, where: str, rows: Batch | None = None) -> None:
        super().__init__(where)
        self.rows = rows
