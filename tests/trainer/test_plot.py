from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bank.round import RoundStep
from trainer.plot import figure_of, plot_round

METRICS = {"reward": 0.3, "success": 0.1, "margin": 0.02, "beta": 1.0}


def steps(count, metrics=METRICS):
    return [RoundStep("rd", n, 32 * n, metrics, datetime(2026, 1, 1, tzinfo=UTC)) for n in range(1, count + 1)]


@pytest.mark.parametrize("drawn", [steps(3), steps(1), [], steps(2, {"beta": 1.0})])
def test_any_number_of_steps_gives_a_picture(drawn):
    assert plot_round(drawn, "rd, student from base", 0.05).startswith(b"\x89PNG\r\n")


def test_every_curve_is_over_rollouts_and_says_what_it_is():
    upper, lower, right = figure_of(steps(3), "rd", 0.05).axes
    assert [line.get_label() for line in upper.lines] == [
        "mean reward of the step's rollouts",
        "success rate of the step's rollouts",
    ]
    assert list(upper.lines[0].get_xdata()) == [32, 64, 96]
    assert lower.get_xlabel() == "rollouts used by this round"
    assert "m = 0.05" in lower.lines[1].get_label()
    assert right.get_ylabel() == "β"
