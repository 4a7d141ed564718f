from __future__ import annotations

import json

import numpy as np

from bank.gate_report import Verdict
from trainer.gate.__main__ import first_verdict, main


def test_simulated_gates_keep_the_stated_rate_and_find_large_effects(tmp_path, capsys):
    main(["--gates", "40", "--tasks", "208", "--out", str(tmp_path)])
    report = json.loads((tmp_path / "gate.json").read_text())
    assert report["gates"] == 40 * len(report["effect_sizes"])
    assert report["false_promotion_rate"] <= report["stated_rate"]
    assert report["miss_rate"]["0.3"] == 0.0
    assert report["verdicts"]["-0.1"]["worse"] > report["verdicts"]["-0.05"]["worse"]
    assert all(abs(sum(shares.values()) - 1.0) < 1e-9 for shares in report["verdicts"].values())
    assert (tmp_path / "gate.png").read_bytes().startswith(b"\x89PNG")
    assert "stated 0.0250" in capsys.readouterr().out


def test_the_first_decision_counts_not_the_last():
    assert first_verdict(np.array([1.0] * 20 + [-1.0] * 200)) is Verdict.BETTER
    assert first_verdict(np.array([-1.0] * 20 + [1.0] * 200)) is Verdict.WORSE
    assert first_verdict(np.zeros(50)) is Verdict.UNDECIDED
