"""A training round: its row, its steps, its progress."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from service.screen.sparkline import sparkline

FINAL = frozenset({"completed", "cancelled", "failed", "empty"})
COLOURS = {"completed": "green", "failed": "red", "cancelled": "yellow", "empty": "yellow"}


def print_rounds(console: Console, rows: Iterable[Mapping[str, Any]]) -> None:
    """One line per round."""
    table = Table(box=None, pad_edge=False)
    # Ids and names are there to be copied: never cut.
    table.add_column("id", no_wrap=True)
    for column in ("status", "phase", "tries", "created", "candidate"):
        table.add_column(column, overflow="fold")
    for row in rows:
        cells = (row["id"], row["status"], row["phase"], row["attempts"], str(row["created_at"])[:16])
        table.add_row(*(str(cell) for cell in cells), row.get("candidate") or "-")
    console.print(table)


def print_round(console: Console, row: Mapping[str, Any]) -> None:
    """One round with its progress and how it ended."""
    colour = COLOURS.get(row["status"], "cyan")
    console.print(f"{row['id']}  [{colour}]{row['status']}[/]  {row.get('phase', '')}")
    steps = row.get("steps") or ()
    if steps:
        console.print(f"reward {reward_line(steps)}")
        console.print(step_line(steps[-1]))
    if row.get("candidate"):
        console.print(f"candidate {row['candidate']}")
    if row.get("error"):
        console.print(f"[red]{escape(str(row['error']))}[/]")


def reward_line(steps: Sequence[Mapping[str, Any]], width: int = 40) -> str:
    """Mean reward of each step as a chart from 0 to 1."""
    return sparkline([step["metrics"].get("reward", 0.0) for step in steps], width, low=0.0, high=1.0)


def step_line(step: Mapping[str, Any]) -> str:
    """What one step measured: reward, KL, Δ (margin), β (dual), speed, time left."""
    metrics = step["metrics"]
    shown = [f"step {step['step']}", f"{step['rollouts']} rollouts"]
    for name, label, digits in (("reward", "reward", 3), ("kl", "KL", 3), ("margin", "Δ", 3), ("beta", "β", 2)):
        if name in metrics:
            shown.append(f"{label} {metrics[name]:.{digits}f}")
    if "eta_seconds" in metrics:
        shown.append(f"{clock(metrics['eta_seconds'])} left")
    return " · ".join(shown)


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    return f"{minutes}:{rest:02d}"
