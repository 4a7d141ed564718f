"""The demo's last page: the result, and what to try next."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.panel import Panel

from service.client import OPERATOR_KEY
from service.demo.report import DemoReport
from service.demo.server import Server
from service.screen.gate_view import percent, points
from service.screen.round_view import clock


def print_result(console: Console, report: DemoReport) -> None:
    """Before, after, difference and what it took."""
    low, high = report.interval
    console.print(
        Panel(
            f"held-out success  [bold]{percent(report.before)} → {percent(report.after)}[/]   "
            f"difference [bold]{points(report.after - report.before)}[/] points "
            f"(95 % interval {points(low)} to {points(high)}, {report.held_out_tasks} tasks, paired)\n"
            f"gate: {report.verdict} · {report.rollouts} training rollouts · "
            f"{report.experiences} experiences from {report.traffic} runs · {clock(report.seconds)} in all\n"
            f"serving {report.checkpoint} ({report.digest[:12]})",
            title=f"seed {report.seed}",
            title_align="left",
        )
    )


def print_curls(console: Console, server: Server, task_id: str, episode_id: str) -> None:
    """Three lines to paste: run a task, send feedback, roll back."""
    send = f'curl -s -H "Authorization: Bearer $(cat {server.data / OPERATOR_KEY})" -H "Content-Type: application/json"'
    feedback: Mapping[str, Any] = {"episode_id": episode_id, "thumbs": "up"}
    for title, path, body in (
        ("run a task", "/v1/agent/runs", {"task_id": task_id}),
        ("send feedback", "/feedback", feedback),
        ("roll back", "/v1/deployment/rollback", {"reason": "trying it out"}),
    ):
        text = ", ".join(f'"{key}": "{value}"' for key, value in body.items())
        console.print(f"[dim]# {title}[/]", soft_wrap=True)
        console.print(f"{send} {server.url}{path} -d '{{{text}}}'", soft_wrap=True, markup=False)


def print_files(console: Console, *paths: Path | None) -> None:
    """Where the figures went."""
    for path in paths:
        if path is not None:
            console.print(f"written: {path}", soft_wrap=True)
