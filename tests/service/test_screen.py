import io

import httpx
from rich.console import Console

from service.client import RatchetClient
from service.screen.checkpoint_view import print_checkpoint, print_checkpoints
from service.screen.gate_view import points, print_gate
from service.screen.round_view import clock, print_round, print_rounds, step_line
from service.screen.round_watch import share_done, watch_round
from service.screen.run_view import print_outcome, print_step
from service.screen.sparkline import sparkline

GATE = {
    "verdict": "better",
    "tasks": 208,
    "candidate_success": 0.5,
    "incumbent_success": 0.125,
    "candidate_reward": 0.6,
    "incumbent_reward": 0.3,
    "difference": 0.375,
    "low": 0.3,
    "high": 0.45,
    "confidence": 0.95,
    "p_value": 1e-9,
    "wins": 80,
    "losses": 2,
    "seed": 0,
}
ROUND = {
    "id": "rd_1",
    "slot": "manual-rd_1",
    "status": "running",
    "phase": "steps",
    "attempts": 1,
    "candidate": None,
    "error": None,
    "created_at": "2026-11-30T02:00:00Z",
    "config": {},
    "steps": [],
}


def screen(*, terminal: bool = False) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, width=120, force_terminal=terminal, highlight=False, color_system=None), out


def step(number: int, reward: float) -> dict:
    metrics = {"reward": reward, "kl": 0.21, "margin": 0.049, "beta": 1.25, "eta_seconds": 61.2}
    return {"step": number, "rollouts": 32 * number, "metrics": metrics}


def test_sparkline_spans_the_given_range() -> None:
    assert sparkline([0.0, 0.5, 1.0], low=0.0, high=1.0) == "▁▅█"
    assert sparkline([2.0, 2.0]) == "▁▁"
    assert sparkline([]) == ""
    assert len(sparkline(range(100), width=7)) == 7


def test_values_outside_the_range_are_drawn_at_its_ends() -> None:
    assert sparkline([-1.0, 2.0], low=0.0, high=1.0) == "▁█"


def test_step_line_names_what_was_measured() -> None:
    line = step_line(step(3, 0.5))
    assert line == "step 3 · 96 rollouts · reward 0.500 · KL 0.210 · Δ 0.049 · β 1.25 · 1:01 left"


def test_step_without_a_metric_leaves_it_out() -> None:
    assert step_line({"step": 1, "rollouts": 32, "metrics": {"reward": 0.25}}) == "step 1 · 32 rollouts · reward 0.250"


def test_clock_and_points() -> None:
    assert clock(125.4) == "2:05"
    assert points(0.375) == "+37.5"
    assert points(-0.01) == "-1.0"


def test_gate_report_shows_both_sides_and_the_evidence() -> None:
    console, out = screen()
    print_gate(console, GATE)
    for shown in ("208 held-out", "12.5 %", "50.0 %", "better", "+37.5", "+30.0 to +45.0", "80 won, 2 lost"):
        assert shown in out.getvalue()


def test_round_is_printed_with_its_error() -> None:
    console, out = screen()
    print_round(console, {**ROUND, "status": "failed", "error": "loss [nan] at step 3", "steps": [step(1, 0.5)]})
    assert "failed" in out.getvalue()
    assert "loss [nan] at step 3" in out.getvalue()
    print_rounds(console, [ROUND])
    assert "2026-11-30T02:00" in out.getvalue()


def test_checkpoints_show_the_verdict_and_the_base_without_one() -> None:
    console, out = screen()
    base = {"name": "base", "status": "live", "created_at": "2026-11-30T02:00:00Z", "gate": None}
    row = {**base, "name": "student-1", "status": "approved", "gate": GATE, "parent": "base", "lineage": {"seed": 1}}
    print_checkpoints(console, [base, row])
    assert "better +37.5" in out.getvalue()
    print_checkpoint(console, row)
    assert "seed" in out.getvalue()


def test_steps_of_a_run_show_calls_and_results_even_with_markup_in_them() -> None:
    console, out = screen()
    call = {"id": "c1", "type": "function", "function": {"name": "refund", "arguments": '{"order": "[red]17"}'}}
    reply = {"role": "assistant", "content": "[bold]", "tool_calls": [call]}
    print_step(console, {"reply": reply, "observations": [{"role": "tool", "tool_call_id": "c1", "content": "[ok]"}]})
    assert out.getvalue() == '[bold]\nrefund({"order": "[red]17"}) → [ok]\n'


def test_outcome_names_the_version_and_says_when_nothing_verified() -> None:
    console, out = screen()
    policy = {"checkpoint": "student-1", "digest": "ab" * 32}
    print_outcome(console, {"id": "ep_1", "stop_reason": "finished", "reward": None, "policy": policy, "fault": None})
    assert "not verified" in out.getvalue()
    assert "student-1 (abababababab)" in out.getvalue()


def bodies() -> list[dict]:
    steps = [step(1, 0.1), step(2, 0.2), step(3, 0.3)]
    return [
        {**ROUND, "phase": "cold_start 10/300"},
        {**ROUND, "phase": "cold_start 20/300"},
        {**ROUND, "phase": "steps", "steps": steps[:1]},
        {**ROUND, "phase": "steps", "steps": steps[:1]},
        {**ROUND, "phase": "done", "status": "completed", "candidate": "student-1", "steps": steps},
    ]


def playing() -> RatchetClient:
    waiting = iter(bodies())
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=next(waiting)))
    return RatchetClient("http://ratchet", None, transport)


def test_watching_without_a_terminal_prints_each_step_once() -> None:
    console, out = screen()
    with playing() as client:
        assert watch_round(client, "rd_1", console, poll=0.0)["candidate"] == "student-1"
    lines = out.getvalue().splitlines()
    assert [line.split(" ·")[0] for line in lines] == [
        "round rd_1: cold_start",
        "step 1",
        "round rd_1: steps",
        "step 2",
        "step 3",
        "round rd_1: done",
    ]


def test_watching_on_a_terminal_ends_with_the_last_state() -> None:
    console, out = screen(terminal=True)
    with playing() as client:
        watch_round(client, "rd_1", console, poll=0.0)
    assert "completed · done" in out.getvalue()
    assert "step 3 · 96 rollouts" in out.getvalue()


def test_share_done_counts_the_phase_or_estimates_the_steps() -> None:
    assert share_done({**ROUND, "phase": "cold_start 10/300"}) == (10, 300)
    assert share_done({**ROUND, "phase": "snapshot"}) == (0, 0)
    # Two steps of 2 s and 4 s, 18 s left: six more of the mean length.
    steps = [{"metrics": {"seconds": 2.0, "eta_seconds": 21.0}}, {"metrics": {"seconds": 4.0, "eta_seconds": 18.0}}]
    assert share_done({**ROUND, "phase": "train", "steps": steps}) == (2, 8)
