from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from bank.gate_report import GateReport, Verdict
from trainer.gate.statistics import Score, compare, compare_parts, verdict


def score(*success: float) -> Score:
    values = np.array(success, dtype=np.float64)
    return Score(values, values)


def judged(candidate: Score, incumbent: Score) -> GateReport:
    return compare(candidate, incumbent, confidence=0.95, seed=7)


def test_report_counts_by_hand():
    # d = +1, +1, 0, -1, 0: mean 0.2, two wins, one loss.
    report = judged(score(1, 1, 1, 0, 0), score(0, 0, 1, 1, 0))
    assert (report.tasks, report.wins, report.losses) == (5, 2, 1)
    assert report.difference == pytest.approx(0.2)
    assert report.candidate_success == pytest.approx(0.6)
    assert report.incumbent_success == pytest.approx(0.4)
    assert report.p_value > 0.5
    assert report.verdict is Verdict.UNDECIDED


def test_ten_wins_decide_and_three_do_not():
    assert judged(score(*[1.0] * 10), score(*[0.0] * 10)).verdict is Verdict.BETTER
    assert judged(score(*[1.0] * 3), score(*[0.0] * 3)).verdict is Verdict.UNDECIDED


def test_a_part_regresses_when_it_is_provably_worse_or_beyond_its_margin():
    parts = {"returns": (score(*[0.0] * 12), score(*[1.0] * 12)), "refunds": (score(1, 0, 1, 1), score(1, 1, 1, 1))}
    returns, refunds = compare_parts(parts, 0.95)
    assert (returns.regressed, refunds.regressed) == (True, False)
    assert (refunds.tasks, refunds.difference) == (4, -0.25)
    assert compare_parts(parts, 0.95, margin=0.2)[1].regressed


def test_parts_share_the_error():
    alone = compare_parts({"a": (score(*[1.0] * 9), score(*[0.0] * 9))}, 0.95)[0]
    both = compare_parts({name: (score(*[1.0] * 9), score(*[0.0] * 9)) for name in "ab"}, 0.95)[0]
    assert both.low < alone.low


def test_a_report_with_all_its_parts_comes_back_from_the_wire():
    report = judged(score(1, 1, 0), score(0, 1, 0))
    parts = compare_parts({"a": (score(1), score(0))}, 0.95)
    whole = replace(report, segments=parts, guards=parts, behaviour={"steps": (1.0, 2.0)}, blocked=("why",))
    assert GateReport.from_wire(json.loads(json.dumps(whole.to_wire()))) == whole


def test_swapping_the_policies_mirrors_the_report():
    better = judged(score(*[1.0] * 19, 0.0), score(*[0.0] * 19, 1.0))
    worse = judged(score(*[0.0] * 19, 1.0), score(*[1.0] * 19, 0.0))
    assert (better.verdict, worse.verdict) == (Verdict.BETTER, Verdict.WORSE)
    assert worse.difference == pytest.approx(-better.difference)
    assert (worse.low, worse.high) == (pytest.approx(-better.high), pytest.approx(-better.low))
    assert worse.p_value == pytest.approx(better.p_value)


def test_equal_policies_are_undecided():
    report = judged(score(1, 0, 1), score(1, 0, 1))
    assert report.low < 0.0 < report.high
    assert report.p_value == 1.0
    assert report.verdict is Verdict.UNDECIDED


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.01, 0.2, Verdict.BETTER), (0.0, 0.2, Verdict.UNDECIDED), (-0.2, -0.01, Verdict.WORSE)],
)
def test_verdict_needs_bounds_that_exclude_zero(low, high, expected):
    assert verdict(low, high) is expected


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
