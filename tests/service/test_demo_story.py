"""The demo's second half against recorded answers: round, gate, swap, last page."""

import io
import json
import subprocess
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from service.client import RatchetClient
from service.demo import story
from service.demo.report import DemoReport, write_reports
from service.demo.server import Server
from service.demo.traffic import Outcome

GATE = {
    "verdict": "better",
    "tasks": 208,
    "candidate_success": 0.4,
    "incumbent_success": 0.03,
    "candidate_reward": 0.5,
    "incumbent_reward": 0.3,
    "difference": 0.37,
    "low": 0.3,
    "high": 0.44,
    "confidence": 0.95,
    "p_value": 1e-9,
    "wins": 80,
    "losses": 3,
    "seed": 0,
}
STEP = {"step": 1, "rollouts": 32, "metrics": {"reward": 0.5, "kl": 0.1, "margin": 0.05, "beta": 1.0}}
ROUND = {
    "id": "rnd_1",
    "status": "completed",
    "phase": "done",
    "candidate": "student-1",
    "error": None,
    "steps": [STEP],
}
OUTCOME = Outcome("ep_1", "order_desk-0/train/0001", 1.0, "student-1", "ab" * 32)


def stage(tmp_path: Path, **answers: dict) -> tuple[story.Stage, io.StringIO]:
    """A stage whose service gives the recorded answers by path; a deployment that follows one look later."""
    pointers = iter([{"current": "base", "generation": 1}, {"current": "student-1", "generation": 2}])
    routes = {
        "/v1/rounds": lambda: {"id": "rnd_1"},
        "/v1/rounds/rnd_1": lambda: {**ROUND, **answers.get("round", {})},
        "/v1/checkpoints/student-1": lambda: {"gate": answers.get("gate", GATE)},
        "/v1/deployment": lambda: next(pointers),
    }
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=routes[request.url.path]()))
    out = io.StringIO()
    process = subprocess.Popen(["true"])
    process.wait()
    server = Server("http://ratchet", "rk_1", tmp_path / "data", process)
    plan = story.Demo(seed=0, data=None, reports=tmp_path / "reports", traffic=10, keep=True)
    console = Console(file=out, width=120, highlight=False)
    return story.Stage(plan, server, RatchetClient("http://ratchet", "rk_1", transport), console), out


def test_round_is_watched_to_its_end(tmp_path: Path) -> None:
    on, out = stage(tmp_path)
    assert story._train(on)["candidate"] == "student-1"
    assert "step 1 · 32 rollouts · reward 0.500" in out.getvalue()


@pytest.mark.parametrize(
    ("round_", "reason"),
    [({"status": "empty", "error": "0 experiences are too few"}, "too few"), ({"candidate": None}, "no candidate")],
)
def test_round_without_a_candidate_ends_the_demo_with_its_reason(tmp_path: Path, round_: dict, reason: str) -> None:
    on, _ = stage(tmp_path, round=round_)
    with pytest.raises(story.DemoFailed, match=reason):
        story._train(on)


def test_better_candidate_is_waited_for_until_it_serves(tmp_path: Path) -> None:
    on, out = stage(tmp_path)
    assert story._judge(on, ROUND)["verdict"] == "better"
    assert "swapped in without a restart: student-1 (generation 2)" in out.getvalue()


def test_undecided_candidate_is_not_waited_for(tmp_path: Path) -> None:
    on, out = stage(tmp_path, gate={**GATE, "verdict": "undecided"})
    story._judge(on, ROUND)
    assert "the incumbent stays" in out.getvalue()


def test_last_page_has_report_plot_address_and_curls(tmp_path: Path) -> None:
    on, out = stage(tmp_path)
    drawn = on.server.data / "rounds" / "rnd_1" / "round.png"
    drawn.parent.mkdir(parents=True)
    drawn.write_bytes(b"png")
    report = DemoReport(0, 0.03, 0.4, (0.3, 0.44), 32, 60.0, "better", "student-1", "ab" * 32, 10, 4, 208)
    written = write_reports(on.plan.reports, [report], many=False)
    story._close(on, report, written, "rnd_1", OUTCOME)
    assert (on.plan.reports / "demo-0.png").read_bytes() == b"png"
    assert json.loads(written.read_text())["after"] == 0.4
    shown = out.getvalue()
    assert shown.count("curl -s") == 3
    assert "demo-0.png" in shown
    assert "http://ratchet\n" in shown
