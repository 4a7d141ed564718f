from __future__ import annotations

import numpy as np
import pytest

from bank.gate_report import GateReport, Verdict
from trainer.gate.statistics import Score, compare, sign_test, verdict


def score(*success: float) -> Score:
    values = np.array(success, dtype=np.float64)
    return Score(values, values)


def judged(candidate: Score, incumbent: Score) -> GateReport:
    return compare(candidate, incumbent, confidence=0.95, resamples=2_000, seed=7)


def test_sign_test_is_the_binomial_tail_by_hand():
    # 5 wins, 1 loss: P(X >= 5) + P(X <= 1) = 2 * (6 + 1) / 2^6 = 14 / 64.
    assert sign_test(5, 1) == pytest.approx(14 / 64)
    # 8 wins, 0 losses: 2 / 2^8.
    assert sign_test(8, 0) == pytest.approx(2 / 256)
    assert sign_test(0, 8) == pytest.approx(2 / 256)


def test_sign_test_without_discordant_pairs_says_nothing():
    assert sign_test(0, 0) == 1.0


def test_report_counts_by_hand():
    # d = +1, +1, 0, -1, 0: mean 0.2, two wins, one loss, p = 2 * (1 + 3) / 8 = 1.
    report = judged(score(1, 1, 1, 0, 0), score(0, 0, 1, 1, 0))
    assert (report.tasks, report.wins, report.losses) == (5, 2, 1)
    assert report.difference == pytest.approx(0.2)
    assert report.candidate_success == pytest.approx(0.6)
    assert report.incumbent_success == pytest.approx(0.4)
    assert report.p_value == pytest.approx(1.0)
    assert report.verdict is Verdict.UNDECIDED


def test_interval_of_constant_differences_is_a_point():
    report = judged(score(*[1.0] * 10), score(*[0.0] * 10))
    assert (report.low, report.high) == (1.0, 1.0)
    assert report.verdict is Verdict.BETTER


def test_interval_matches_the_normal_one_for_many_tasks():
    # 1,000 tasks, 60 wins and 20 losses: mean .04, variance .08 - .0016, standard error sqrt(.0784 / 1000) = .00885.
    candidate, incumbent = np.zeros(1000), np.zeros(1000)
    candidate[:60], incumbent[60:80] = 1.0, 1.0
    report = judged(score(*candidate), score(*incumbent))
    assert report.low == pytest.approx(0.04 - 1.96 * 0.00885, abs=0.002)
    assert report.high == pytest.approx(0.04 + 1.96 * 0.00885, abs=0.002)
    assert report.verdict is Verdict.BETTER


def test_swapping_the_policies_mirrors_the_report():
    better = judged(score(*[1.0] * 9, 0.0), score(*[0.0] * 9, 1.0))
    worse = judged(score(*[0.0] * 9, 1.0), score(*[1.0] * 9, 0.0))
    assert (better.verdict, worse.verdict) == (Verdict.BETTER, Verdict.WORSE)
    assert worse.difference == pytest.approx(-better.difference)
    assert (worse.low, worse.high) == (pytest.approx(-better.high), pytest.approx(-better.low))
    assert worse.p_value == pytest.approx(better.p_value)


def test_equal_policies_are_undecided():
    report = judged(score(1, 0, 1), score(1, 0, 1))
    assert (report.low, report.high, report.p_value) == (0.0, 0.0, 1.0)
    assert report.verdict is Verdict.UNDECIDED


@pytest.mark.parametrize(
    ("low", "high", "p_value", "expected"),
    [
        (0.01, 0.2, 0.049, Verdict.BETTER),
        (0.01, 0.2, 0.051, Verdict.UNDECIDED),
        (0.0, 0.2, 0.001, Verdict.UNDECIDED),
        (-0.2, -0.01, 0.049, Verdict.WORSE),
        (-0.2, -0.01, 0.051, Verdict.UNDECIDED),
        (-0.2, 0.0, 0.001, Verdict.UNDECIDED),
    ],
)
def test_verdict_needs_interval_and_sign_test(low, high, p_value, expected):
    assert verdict(low, high, p_value, 0.95) is expected


def test_same_seed_same_report():
    candidate, incumbent = score(1, 1, 0, 1, 0, 1), score(0, 1, 0, 0, 1, 0)
    assert judged(candidate, incumbent) == judged(candidate, incumbent)


@pytest.mark.parametrize(
    ("candidate", "incumbent"),
    [
        (score(), score()),
        (score(1.0), score(1.0, 0.0)),
        (score(float("nan")), score(0.0)),
        (score(1.5), score(0.0)),
    ],
)
def test_unusable_scores_are_refused(candidate, incumbent):
    with pytest.raises(ValueError, match=r"must lie in|paired comparison"):
        judged(candidate, incumbent)
