"""Watch a round until it ends: redrawn in place on a terminal, one line per step elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.text import Text

from service.client import Body, RatchetClient
from service.screen.round_view import FINAL, reward_line, step_line

POLL_SECONDS = 0.5


def watch_round(client: RatchetClient, round_id: str, console: Console, poll: float = POLL_SECONDS) -> Body:
    """The finished round. Leaving early (Ctrl-C) does not stop the round."""
    return _redrawn(client, round_id, console, poll) if console.is_terminal else _lines(client, round_id, console, poll)


def _redrawn(client: RatchetClient, round_id: str, console: Console, poll: float) -> Body:
    body = client.get(f"/v1/rounds/{round_id}")
    with Live(round_panel(body), console=console, refresh_per_second=4, transient=False) as live:
        while body["status"] not in FINAL:
            time.sleep(poll)
            body = client.get(f"/v1/rounds/{round_id}")
            live.update(round_panel(body))
    return body


def _lines(client: RatchetClient, round_id: str, console: Console, poll: float) -> Body:
    phase, printed = None, 0
    while True:
        body = client.get(f"/v1/rounds/{round_id}")
        for step in body["steps"][printed:]:
            console.print(step_line(step), soft_wrap=True)
        printed = max(printed, len(body["steps"]))
        if phase_name(body) != phase:
            phase = phase_name(body)
            console.print(f"round {round_id}: {phase}", soft_wrap=True)
        if body["status"] in FINAL:
            return body
        time.sleep(poll)


def round_panel(body: Mapping[str, Any]) -> RenderableType:
    """Phase, share done, reward chart and the latest step."""
    steps = body["steps"]
    rows: list[RenderableType] = [Text(f"{body['status']} · {body['phase']}", style="bold")]
    done, total = share_done(body)
    if total:
        rows.append(ProgressBar(total=total, completed=done, width=48))
    if steps:
        rows += [Text(f"reward {reward_line(steps, width=48)}", style="green"), Text(step_line(steps[-1]))]
    return Panel(Group(*rows), title=f"round {body['id']}", title_align="left", width=88)


def phase_name(body: Mapping[str, Any]) -> str:
    """The phase without its count, "cold_start" of "cold_start 20/300"."""
    return str(body["phase"]).partition(" ")[0]


def share_done(body: Mapping[str, Any]) -> tuple[int, int]:
    """Units done and planned of what the round is at: counted in the phase's name, or steps; total 0 if unknown."""
    done, _, total = str(body["phase"]).partition(" ")[2].partition("/")
    if done.isdigit() and total.isdigit():
        return int(done), int(total)
    steps = body["steps"]
    return len(steps), _planned(steps) if steps else 0


def _planned(steps: Sequence[Mapping[str, Any]]) -> int:
    """The trainer's estimate of the time left, in steps of the mean length seen so far."""
    seconds = [step["metrics"].get("seconds", 0.0) for step in steps]
    mean = sum(seconds) / len(seconds)
    left = steps[-1]["metrics"].get("eta_seconds", 0.0) / mean if mean > 0 else 0.0
    return len(steps) + round(left)
