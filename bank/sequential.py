"""Sequential inference on a mean by betting: valid however often one looks, and whenever one stops.

Legend: d_i differences in [-1, 1]; m a mean under test; c in (0, 1) the share of its capital that a gambler risks.

A gambler who bets against "the mean is at most m" holds K_n(m) = avg_c prod_i (1 - c + c (1 + d_i) / (1 + m)) after n
differences. If the mean is at most m, whatever came before, K is a non-negative supermartingale that starts at 1, and by
Ville's inequality it ever reaches 1 / a with probability at most a. So one minus a confidence sequence for the mean is
where some gambler is rich. Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by betting"; the
average over c is their hedge, uniform over `FRACTIONS` fixed shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

Differences = NDArray[np.float64]

FRACTIONS = (np.arange(40) + 0.5) / 40
TOLERANCE = 1e-6
"""Width to which a bound is bisected, to the safe side."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What n differences say about their mean, over all looks so far."""

    low: float
    high: float
    p_value: float
    """Two-sided, of a mean of zero; anytime-valid: the inverse of the richest gambler's highest capital, doubled."""


def evidence(differences: Differences, confidence: float) -> Evidence:
    """The running confidence sequence after `differences` [n], in their order, each side at half the error."""
    side = (1.0 - confidence) / 2.0
    richest = max(peak(differences, 0.0), peak(-differences, 0.0))
    return Evidence(
        low=lower_bound(differences, side),
        high=-lower_bound(-differences, side),
        p_value=float(min(1.0, 2.0 * np.exp(-richest))),
    )


def peak(differences: Differences, mean: float) -> float:
    """Natural log of the highest capital that betting against "at most `mean`" (above -1) has reached; at least 0."""
    if not len(differences):
        return 0.0
    ratios = (1.0 + differences) / (1.0 + mean)
    capital = np.cumsum(np.log1p(FRACTIONS[:, None] * (ratios - 1.0)), axis=1)
    top = capital.max(axis=0)
    mixed = top + np.log(np.exp(capital - top).mean(axis=0))
    return max(0.0, float(mixed.max()))


def lower_bound(differences: Differences, error: float) -> float:
    """Below it the mean lies with probability at most `error`, at all looks together; one-sided."""
    rich = -log(error)
    low, high = -1.0, 1.0
    while high - low > TOLERANCE:
        middle = (low + high) / 2.0
        low, high = (middle, high) if peak(differences, middle) >= rich else (low, middle)
    return low
