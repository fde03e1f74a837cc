"""Error for NaN or infinite numbers in training, with the samples they came from."""

from __future__ import annotations

from collections.abc import Sequence

from marft_agents.learning.batch import Sample


class DivergenceError(FloatingPointError):
    """A loss, log-prob, value or gradient that is NaN or infinite.

    Args:
        where: Message: the number, the policy and update it belongs to, and advice.
        samples: Actions it was computed from: only the offending ones where they can be identified.
    """

    def __init__(self, where: str, samples: Sequence[Sample] = ()) -> None:
        super().__init__(where)
        self.samples = tuple(samples)
