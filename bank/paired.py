"""Paired comparison: the interval of a mean difference over the same tasks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CHUNK = 1_000


def bootstrap_interval(
    differences: NDArray[np.float64], *, confidence: float, resamples: int, seed: int
) -> tuple[float, float]:
    """Percentile interval of the mean of `differences` [n], tasks drawn with replacement (Efron 1979)."""
    rng = np.random.default_rng(seed)
    count = len(differences)
    sizes = [min(CHUNK, resamples - start) for start in range(0, resamples, CHUNK)]
    means = [differences[rng.integers(0, count, (size, count))].mean(axis=1) for size in sizes]
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(np.concatenate(means), (tail, 1.0 - tail))
    return float(low), float(high)
