"""What stops a training run: a number that is not finite, with the records it came from."""

from __future__ import annotations

from collections.abc import Sequence

from marft_agents.learning.batch import Sample


class DivergenceError(FloatingPointError):
    """A loss, log-prob, value or gradient that is NaN or infinite.

    Args:
        where: which number of which policy and update, and what to do.
        samples: the actions it was computed from, fewest first where they could be told apart.
    """

    def __init__(self, where: str, samples: Sequence[Sample] = ()) -> None:
        super().__init__(where)
        self.samples = tuple(samples)
