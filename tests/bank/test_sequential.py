from __future__ import annotations

import numpy as np
import pytest

from bank.sequential import FRACTIONS, evidence, lower_bound, peak


def test_capital_after_two_wins_by_hand():
    # Each gambler multiplies by 1 + c twice; the hedge is their mean.
    assert peak(np.ones(2), 0.0) == pytest.approx(np.log(((1 + FRACTIONS) ** 2).mean()))


def test_capital_keeps_its_peak():
    assert peak(np.array([1.0, 1.0, -1.0]), 0.0) == peak(np.ones(2), 0.0)
    assert peak(-np.ones(5), 0.0) == 0.0
    assert peak(np.array([]), 0.0) == 0.0


def test_bounds_close_in_on_the_mean_and_mirror():
    rng = np.random.default_rng(1)
    draws = rng.choice([1.0, 0.0, -1.0], size=2_000, p=[0.3, 0.6, 0.1])
    few, many = evidence(draws[:50], 0.95), evidence(draws, 0.95)
    assert few.low <= many.low < 0.2 < many.high <= few.high
    assert many.high - many.low < 0.12
    assert evidence(-draws, 0.95).high == pytest.approx(-many.low)


def test_no_evidence_is_the_whole_range():
    nothing = evidence(np.array([]), 0.95)
    assert (nothing.low, nothing.high, nothing.p_value) == (-1.0, 1.0, 1.0)


def test_bounds_hold_at_all_looks_together():
    # 400 streams of 300 looks; the lower bound may pass the true mean in at most 5 % of them, give or take.
    rng = np.random.default_rng(2)
    draws = rng.choice([1.0, -1.0], size=(400, 300), p=[0.55, 0.45])
    missed = sum(peak(stream, 0.1) >= np.log(1 / 0.05) for stream in draws)
    assert missed <= 0.05 * 400 + 3 * np.sqrt(400 * 0.05 * 0.95)


def test_lower_bound_is_to_the_safe_side():
    draws = np.array([1.0] * 20 + [0.0] * 5)
    assert peak(draws, lower_bound(draws, 0.05)) >= np.log(1 / 0.05)
