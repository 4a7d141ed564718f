"""Paired comparison of two policies on the same tasks.

Legend: c, b success rates per task of candidate and incumbent; d = c - b; wins and losses count
tasks with d > 0 and d < 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from bank.gate_report import GateReport, Verdict
from bank.paired import bootstrap_interval

Rates = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Score:
    """One policy on n tasks; the same index is the same task in every score of a comparison."""

    success: Rates
    """Success rate per task, in [0, 1]; [n]."""
    reward: Rates
    """Mean reward per task, in [0, 1]; [n]."""


def compare(candidate: Score, incumbent: Score, *, confidence: float, resamples: int, seed: int) -> GateReport:
    """The report with its verdict. Raises ValueError for no task, unequal counts or a value that is not a number."""
    differences = _paired(candidate, incumbent)
    low, high = bootstrap_interval(differences, confidence=confidence, resamples=resamples, seed=seed)
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    p_value = sign_test(wins, losses)
    return GateReport(
        verdict=verdict(low, high, p_value, confidence),
        tasks=len(differences),
        candidate_success=float(candidate.success.mean()),
        incumbent_success=float(incumbent.success.mean()),
        candidate_reward=float(candidate.reward.mean()),
        incumbent_reward=float(incumbent.reward.mean()),
        difference=float(differences.mean()),
        low=low,
        high=high,
        confidence=confidence,
        p_value=p_value,
        wins=wins,
        losses=losses,
        seed=seed,
    )


def sign_test(wins: int, losses: int) -> float:
    """Exact two-sided p of the discordant pairs under a fair coin (McNemar's exact test); 1 without any."""
    if wins + losses == 0:
        return 1.0
    return float(binomtest(wins, wins + losses, 0.5).pvalue)


def verdict(low: float, high: float, p_value: float, confidence: float) -> Verdict:
    """Better or worse only where the interval excludes zero and the sign test agrees."""
    if p_value >= 1.0 - confidence:
        return Verdict.UNDECIDED
    if low > 0.0:
        return Verdict.BETTER
    return Verdict.WORSE if high < 0.0 else Verdict.UNDECIDED


def _paired(candidate: Score, incumbent: Score) -> Rates:
    counts = {len(values) for score in (candidate, incumbent) for values in (score.success, score.reward)}
    if len(counts) != 1 or counts == {0}:
        raise ValueError(f"a paired comparison needs equal, non-zero numbers of tasks, not {sorted(counts)}")
    values = np.concatenate([candidate.success, candidate.reward, incumbent.success, incumbent.reward])
    if not bool(np.all((values >= 0.0) & (values <= 1.0))):
        raise ValueError("success rates and rewards must lie in [0, 1]")
    return candidate.success - incumbent.success
