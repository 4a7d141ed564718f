import io
import json
import socket
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from agents.suites import open_suite
from bank.episode import Split
from service.demo.closing import print_curls, print_result
from service.demo.crowd import Tally, bank_line
from service.demo.measure import compare
from service.demo.report import DemoReport, write_reports
from service.demo.series import play_series, print_series
from service.demo.server import Server, environment, free_port
from service.demo.story import Demo, DemoFailed, run_demo
from service.demo.traffic import Outcome, TrafficFailed, read_outcome, requests_over

REPORT = DemoReport(
    seed=3,
    before=0.03,
    after=0.41,
    interval=(0.31, 0.45),
    rollouts=768,
    seconds=184.2,
    verdict="better",
    checkpoint="student-r-0123456789ab",
    digest="ab" * 32,
    traffic=1000,
    experiences=40,
    held_out_tasks=208,
)
EPISODE = {
    "id": "ep_1",
    "task_id": "order_desk-0/train/0001",
    "reward": 0.5,
    "fault": None,
    "policy": {"checkpoint": "base", "digest": "cd" * 32},
}


def outcome(number: int, reward: float) -> Outcome:
    return Outcome(f"ep_{number}", f"task-{number}", reward, "base", "00")


def screen() -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, width=100, highlight=False), out


def test_requests_go_round_the_tasks_with_a_seed_each() -> None:
    tasks = open_suite("order_desk:0").tasks(Split.TRAIN)
    requests = requests_over(tasks, len(tasks) + 2, seed=1)
    assert [request.task_id for request in requests[-2:]] == [tasks[0].id, tasks[1].id]
    assert len({request.seed for request in requests}) == len(requests)
    assert requests == requests_over(tasks, len(tasks) + 2, seed=1)
    assert {request.seed for request in requests}.isdisjoint(r.seed for r in requests_over(tasks, 1000, seed=2))


def test_partial_credit_is_no_success() -> None:
    assert read_outcome(EPISODE) == Outcome("ep_1", "order_desk-0/train/0001", 0.5, "base", "cd" * 32)
    assert not read_outcome(EPISODE).success
    assert read_outcome({**EPISODE, "reward": 1.0}).success


@pytest.mark.parametrize("broken", [{"fault": "engine: out of memory"}, {"reward": None}])
def test_fault_or_missing_reward_stops_the_demo(broken: dict) -> None:
    with pytest.raises(TrafficFailed, match="ep_1"):
        read_outcome({**EPISODE, **broken})


def test_difference_is_paired_by_task() -> None:
    # Three tasks flip from fail to success, one from success to fail, of ten: +0.2.
    before = [outcome(i, 1.0 if i in {0, 9} else 0.0) for i in range(10)]
    after = [outcome(i, 1.0 if i in {0, 1, 2, 3} else 0.0) for i in range(10)]
    found = compare(before, after, seed=0)
    assert (found.before, found.after) == (0.2, 0.4)
    assert found.low < 0.2 < found.high
    assert found == compare(before, after, seed=0)


def test_same_outcomes_have_no_difference_and_no_width() -> None:
    runs = [outcome(i, float(i % 2)) for i in range(10)]
    found = compare(runs, runs, seed=0)
    assert (found.low, found.high) == (0.0, 0.0)


def test_comparison_of_other_tasks_is_refused() -> None:
    with pytest.raises(ValueError, match="same tasks"):
        compare([outcome(1, 1.0)], [outcome(2, 1.0)], seed=0)


def test_one_report_is_the_file_and_several_are_under_runs(tmp_path: Path) -> None:
    path = write_reports(tmp_path / "reports", [REPORT], many=False)
    one = json.loads(path.read_text())
    keys = {"seed", "before", "after", "interval", "rollouts", "seconds", "verdict", "checkpoint", "digest"}
    assert keys <= set(one)
    assert one["interval"] == [0.31, 0.45]
    write_reports(tmp_path / "reports", [REPORT, replace(REPORT, seed=4)], many=True)
    assert [row["seed"] for row in json.loads(path.read_text())["runs"]] == [3, 4]


def test_callers_settings_that_point_at_real_data_are_left_behind() -> None:
    outer = {"PATH": "/bin", "RATCHET_LEDGER_URL": "x", "RATCHET_API_KEY": "k", "RATCHET_ROUND": "{}"}
    assert environment(outer) == {"PATH": "/bin", "RATCHET_ROUND": "{}"}


def test_free_port_can_be_listened_on() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", free_port()))


def test_demo_refuses_a_folder_with_something_in_it(tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite3").write_text("precious")
    console, _ = screen()
    plan = Demo(seed=0, data=tmp_path, reports=tmp_path, traffic=1)
    with pytest.raises(DemoFailed, match="not empty"):
        run_demo(plan, console, lambda _: tmp_path)
    assert (tmp_path / "ledger.sqlite3").read_text() == "precious"


def test_result_page_shows_points_interval_and_version() -> None:
    console, out = screen()
    print_result(console, REPORT)
    for shown in (
        "3.0 % → 41.0 %",
        "+38.0",
        "+31.0 to +45.0",
        "768 training rollouts",
        "3:04",
        "student-r-0123456789ab",
    ):
        assert shown in out.getvalue()


def test_three_curl_lines_are_whole_lines_a_shell_can_read(tmp_path: Path) -> None:
    console, out = screen()
    (tmp_path / "operator.key").write_text("rk_secret")
    process = subprocess.Popen(["true"])
    process.wait()
    print_curls(
        console, Server("http://127.0.0.1:1", "rk_secret", tmp_path, process), "order_desk-0/train/0000", "ep_1"
    )
    lines = [line for line in out.getvalue().splitlines() if line.startswith("curl")]
    assert len(lines) == 3
    for line in lines:
        shown = subprocess.run(
            ["bash", "-c", line.replace("curl", "printf '%s\\n'", 1)], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        assert "Authorization: Bearer rk_secret" in shown
        assert json.loads(shown[-1])


def test_progress_without_a_terminal_is_a_few_lines_with_the_bank() -> None:
    console, out = screen()
    with Tally("traffic", 100, console) as tally:
        tally.show_bank({"episodes": 9, "successes": 2, "experiences": 2, "indexed": 1})
        for i in range(100):
            tally.count(outcome(i, float(i % 2)))
    lines = out.getvalue().splitlines()
    assert len(lines) == 5
    assert lines[-1].strip() == (
        "traffic: 100/100 · 50 solved · bank: 9 episodes, 2 successes, 2 experiences, 1 indexed"
    )


def test_bank_line_counts_in_order() -> None:
    assert bank_line({"episodes": 4, "successes": 3, "experiences": 2, "indexed": 1}).startswith("bank: 4 episodes")


def test_series_shows_a_line_per_seed() -> None:
    console, out = screen()
    print_series(console, [REPORT, replace(REPORT, seed=4, after=0.5, verdict="undecided")])
    assert "+38.0" in out.getvalue()
    assert "+47.0" in out.getvalue()
    assert "undecided" in out.getvalue()


def test_failed_demo_names_its_seed(tmp_path: Path) -> None:
    (tmp_path / "something").touch()
    console, _ = screen()
    plan = Demo(seed=7, data=tmp_path, reports=tmp_path / "reports", traffic=1)
    assert (failure := play_series([plan], console, many=False)) is not None
    assert failure.startswith("seed 7: ")
    assert not (tmp_path / "reports").exists()
