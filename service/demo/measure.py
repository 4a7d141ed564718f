"""Before and after on the same held-out tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bank.paired import bootstrap_interval
from service.demo.traffic import Outcome

CONFIDENCE = 0.95
RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Difference:
    """Success after minus before, paired by task."""

    before: float
    after: float
    low: float
    high: float


def success_rate(outcomes: Sequence[Outcome]) -> float:
    """Share of solved tasks."""
    return sum(outcome.success for outcome in outcomes) / len(outcomes)


def compare(before: Sequence[Outcome], after: Sequence[Outcome], seed: int) -> Difference:
    """The paired difference with its 95 % bootstrap interval. Raises ValueError when the tasks differ."""
    if [outcome.task_id for outcome in before] != [outcome.task_id for outcome in after]:
        raise ValueError("a paired comparison needs the same tasks in the same order")
    differences = np.array([float(b.success) - float(a.success) for a, b in zip(before, after, strict=True)])
    low, high = bootstrap_interval(differences, confidence=CONFIDENCE, resamples=RESAMPLES, seed=seed)
    return Difference(success_rate(before), success_rate(after), low, high)
