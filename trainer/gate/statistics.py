"""Paired comparison of two policies on the same tasks, safe to look at and to stop at any time.

Legend: c, b success rates per task of candidate and incumbent; d = c - b; wins and losses count
tasks with d > 0 and d < 0.

Better means that the lower bound of the mean of d, a confidence sequence by betting (`bank.sequential`), is above zero;
worse that the upper one is below. Tasks are taken to be drawn from the population that is served. A candidate that is no
better is then called better with probability at most (1 - confidence) / 2, at all looks together and at any sample size;
`python -m trainer.gate` measures how far below that it stays, and what it costs in misses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bank.gate_report import Comparison, GateReport, Verdict
from bank.sequential import evidence

Rates = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Score:
    """One policy on n tasks; the same index is the same task in every score of a comparison."""

    success: Rates
    """Success rate per task, in [0, 1]; [n]."""
    reward: Rates
    """Mean reward per task, in [0, 1]; [n]."""

    def of(self, chosen: NDArray[np.bool_]) -> Score:
        """The score on the chosen tasks [n]."""
        return Score(self.success[chosen], self.reward[chosen])


def compare(candidate: Score, incumbent: Score, *, confidence: float, seed: int) -> GateReport:
    """The report with its verdict. Raises ValueError for no task, unequal counts or a value that is not a number."""
    differences = _paired(candidate, incumbent)
    found = evidence(differences, confidence)
    return GateReport(
        verdict=verdict(found.low, found.high),
        tasks=len(differences),
        candidate_success=float(candidate.success.mean()),
        incumbent_success=float(incumbent.success.mean()),
        candidate_reward=float(candidate.reward.mean()),
        incumbent_reward=float(incumbent.reward.mean()),
        difference=float(differences.mean()),
        low=found.low,
        high=found.high,
        confidence=confidence,
        p_value=found.p_value,
        wins=int((differences > 0).sum()),
        losses=int((differences < 0).sum()),
        seed=seed,
    )


def compare_parts(
    parts: Mapping[str, tuple[Score, Score]], confidence: float, margin: float | None = None
) -> tuple[Comparison, ...]:
    """Candidate and incumbent on each part; the error is shared among them (Bonferroni), so all bounds hold together.

    A part regresses when it is provably worse, or by `margin` when one is given.
    """
    each = 1.0 - (1.0 - confidence) / max(1, len(parts))
    return tuple(_part(name, *scores, each, margin) for name, scores in parts.items())


def verdict(low: float, high: float) -> Verdict:
    """Better or worse only where the bounds exclude zero."""
    if low > 0.0:
        return Verdict.BETTER
    return Verdict.WORSE if high < 0.0 else Verdict.UNDECIDED


def _part(name: str, candidate: Score, incumbent: Score, confidence: float, margin: float | None) -> Comparison:
    differences = _paired(candidate, incumbent)
    found, difference = evidence(differences, confidence), float(differences.mean())
    return Comparison(
        name=name,
        tasks=len(differences),
        candidate_success=float(candidate.success.mean()),
        incumbent_success=float(incumbent.success.mean()),
        difference=difference,
        low=found.low,
        high=found.high,
        regressed=found.high < 0.0 or (margin is not None and difference < -margin),
    )


def _paired(candidate: Score, incumbent: Score) -> Rates:
    counts = {len(values) for score in (candidate, incumbent) for values in (score.success, score.reward)}
    if len(counts) != 1 or counts == {0}:
        raise ValueError(f"a paired comparison needs equal, non-zero numbers of tasks, not {sorted(counts)}")
    values = np.concatenate([candidate.success, candidate.reward, incumbent.success, incumbent.reward])
    if not bool(np.all((values >= 0.0) & (values <= 1.0))):
        raise ValueError("success rates and rewards must lie in [0, 1]")
    return candidate.success - incumbent.success
