"""The scale on which a value head learns: returns less their running mean, over their running spread."""

from __future__ import annotations

import numpy as np

from marft_agents.learning.advantages import Array

DECAY = 0.99999
LEAST_VARIANCE = 1e-2  # returns that hardly differ are not blown up


class ReturnScale:
    r"""Running mean and spread of returns, free of the bias of their start; 0 and 1 before the first.

    .. math::
        m \leftarrow \beta m + (1 - \beta)\,\overline{R}, \quad
        s \leftarrow \beta s + (1 - \beta)\,\overline{R^2}, \quad
        w \leftarrow \beta w + (1 - \beta), \qquad
        \mu = \frac{m}{w}, \quad \sigma^2 = \max\left(10^{-2}, \frac{s}{w} - \mu^2\right)

    Source: MAPPO, arXiv 2103.01955, section 5.1 (value normalisation), with the constants of its code.

    Attributes:
        sums: m, s, w.
    """

    def __init__(self) -> None:
        self.sums: Array = np.zeros(3)

    def update(self, returns: Array) -> None:
        """Take in the returns [N >= 1] of one update."""
        seen = np.array([returns.mean(), np.square(returns).mean(), 1.0])
        self.sums = DECAY * self.sums + (1 - DECAY) * seen

    def normalise(self, returns: Array) -> Array:
        """Map returns [N] to what the head learns."""
        mean, spread = self._moments()
        return (returns - mean) / spread

    def denormalise(self, outputs: Array) -> Array:
        """Map what the head says [N] to values."""
        mean, spread = self._moments()
        return outputs * spread + mean

    def _moments(self) -> tuple[float, float]:
        first, second, weight = self.sums.tolist()
        if weight == 0:
            return 0.0, 1.0
        mean = first / weight
        return mean, max(LEAST_VARIANCE, second / weight - mean**2) ** 0.5
