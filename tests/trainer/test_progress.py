from __future__ import annotations

from datetime import UTC, datetime
from io import StringIO

import pytest
from rich.console import Console

from bank.episode import Episode, Split, StopReason, Turn
from bank.gate_report import GateReport, Verdict
from bank.message import Message, Role
from trainer.progress import Pace, Reporter, describe, rollout_metrics

REPORT = GateReport(Verdict.BETTER, 208, 0.42, 0.13, 0.5, 0.3, 0.29, 0.21, 0.37, 0.95, 1e-9, 70, 10, 0)


def episode(reward, tokens):
    turn = Turn((1,), (2,) * tokens, (-0.1,) * tokens, Message(Role.ASSISTANT, "done"))
    return Episode(
        "ep", datetime(2026, 1, 1, tzinfo=UTC), "t", "s", Split.TRAIN, "text", "v", "d", (), (turn,),
        StopReason.FINISHED, reward,
    )  # fmt: skip


def test_rollout_metrics_by_hand():
    found = rollout_metrics([episode(1.0, 3), episode(0.5, 4), episode(0.0, 5)], faults=2, threshold=0.5)
    assert found == {"reward": 0.5, "success": pytest.approx(2 / 3), "faults": 2.0, "sampled_tokens": 12.0}


def test_the_rest_is_estimated_from_the_steps_made():
    pace = Pace(10)
    first = pace.tick(7, sampled_tokens=50.0)
    assert first["eta_seconds"] == pytest.approx(first["seconds"] * 3)
    assert first["tokens_per_second"] == pytest.approx(50.0 / first["seconds"])
    assert pace.tick(10, 0.0)["eta_seconds"] == 0.0


def test_plain_lines_without_a_terminal():
    out = StringIO()
    reporter = Reporter(Console(file=out, width=40))
    reporter.phase("rd_1", "training", 3)
    reporter.advance(1, {"reward": 0.25, "kl": 0.123456, "sampled_tokens": 7.0})
    reporter.verdict(REPORT)
    reporter.close()
    assert out.getvalue().splitlines() == ["rd_1 training", "  1 reward 0.25 kl 0.123", describe(REPORT)]


def test_a_bar_on_a_terminal():
    out = StringIO()
    reporter = Reporter(Console(file=out, force_terminal=True, width=100))
    reporter.phase("rd_1", "training", 3)
    reporter.advance(3, {"reward": 0.25})
    reporter.phase("rd_1", "gate")
    reporter.verdict(REPORT)
    assert "3/3" in out.getvalue()
    assert "reward 0.25" in out.getvalue()


def test_the_report_in_words():
    assert describe(REPORT) == (
        "gate: better; success 0.130 -> 0.420, difference +0.290 [+0.210, +0.370] at 95%, "
        "p 1e-09 (70 won, 10 lost of 208 tasks)"
    )
