"""Return normalisation for value heads: running mean and standard deviation of the returns."""

from __future__ import annotations

import numpy as np

from marft_agents.learning.advantages import Array

DECAY = 0.99999
LEAST_VARIANCE = 1e-2  # lower bound, so that nearly equal returns are not amplified


class ReturnScale:
    r"""Bias-corrected running mean and standard deviation of returns; 0 and 1 before the first update.

    .. math::
        m \leftarrow \beta m + (1 - \beta)\,\overline{R}, \quad
        s \leftarrow \beta s + (1 - \beta)\,\overline{R^2}, \quad
        w \leftarrow \beta w + (1 - \beta), \qquad
        \mu = \frac{m}{w}, \quad \sigma^2 = \max\left(10^{-2}, \frac{s}{w} - \mu^2\right)

    Source: MAPPO, arXiv 2103.01955, section 5.1 (value normalisation), with the constants of its code.

    Attributes:
        sums: Float64 [3], the running sums m, s and w.
    """

    def __init__(self) -> None:
        self.sums: Array = np.zeros(3)

    def update(self, returns: Array) -> None:
        """Add the returns [N] of one update, N >= 1."""
        seen = np.array([returns.mean(), np.square(returns).mean(), 1.0])
        self.sums = DECAY * self.sums + (1 - DECAY) * seen

    def normalise(self, returns: Array) -> Array:
        """Map returns [N] to the head's scale."""
        mean, spread = self._moments()
        return (returns - mean) / spread

    def denormalise(self, outputs: Array) -> Array:
        """Map the head's outputs [N] to values on the scale of returns."""
        mean, spread = self._moments()
        return outputs * spread + mean

    def _moments(self) -> tuple[float, float]:
        first, second, weight = self.sums.tolist()
        if weight == 0:
            return 0.0, 1.0
        mean = first / weight
        return mean, max(LEAST_VARIANCE, second / weight - mean**2) ** 0.5
