"""One demo, or one after the other over several seeds, and their common report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from service.client import ApiError, Unreachable
from service.demo.report import DemoReport, write_reports
from service.demo.server import ServerFailed
from service.demo.story import Demo, DemoFailed, run_demo
from service.demo.traffic import TrafficFailed
from service.screen.gate_view import percent, points
from service.screen.round_view import clock

FAILURES = (DemoFailed, ServerFailed, TrafficFailed, ApiError, Unreachable)


def play_series(plans: Sequence[Demo], console: Console, *, many: bool) -> str | None:
    """Play every plan; returns why the series ended early, if it did. The report is rewritten after each demo."""
    done: list[DemoReport] = []

    def store(report: DemoReport) -> Path:
        done.append(report)
        return write_reports(plans[0].reports, done, many=many)

    for plan in plans:
        try:
            run_demo(plan, console, store)
        except FAILURES as error:
            return f"seed {plan.seed}: {error}"
    if many:
        print_series(console, done)
    return None


def print_series(console: Console, reports: Sequence[DemoReport]) -> None:
    """One line per seed."""
    table = Table("seed", "before", "after", "difference", "95 % interval", "verdict", "rollouts", "time")
    for report in reports:
        low, high = report.interval
        cells = (percent(report.before), percent(report.after), points(report.after - report.before))
        interval = f"{points(low)} to {points(high)}"
        table.add_row(str(report.seed), *cells, interval, report.verdict, str(report.rollouts), clock(report.seconds))
    console.print(table)
