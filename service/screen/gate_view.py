"""The gate's report: before, after, difference, verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

COLOURS = {"better": "green", "worse": "red", "undecided": "yellow"}


def print_gate(console: Console, gate: Mapping[str, Any]) -> None:
    """One gate report as a small table."""
    table = Table(title=f"Gate: {gate['tasks']} held-out tasks, paired", title_justify="left")
    for column in ("", "success", "mean reward"):
        table.add_column(column, justify="right" if column else "left")
    table.add_row("incumbent", percent(gate["incumbent_success"]), f"{gate['incumbent_reward']:.3f}")
    table.add_row("candidate", percent(gate["candidate_success"]), f"{gate['candidate_reward']:.3f}")
    console.print(table)
    console.print(gate_line(gate))
    for part in [*gate.get("segments", ()), *gate.get("guards", ())]:
        console.print(_part_line(part))
    for reason in gate.get("blocked", ()):
        console.print(f"not promoted by itself: {escape(reason)}")


def gate_line(gate: Mapping[str, Any]) -> str:
    """The verdict with its evidence, one line."""
    colour = COLOURS[gate["verdict"]]
    return (
        f"[{colour} bold]{gate['verdict']}[/] · difference {points(gate['difference'])} "
        f"({gate['confidence']:.0%} interval {points(gate['low'])} to {points(gate['high'])}) · "
        f"{gate['wins']} won, {gate['losses']} lost · p = {gate['p_value']:.2g}"
    )


def _part_line(part: Mapping[str, Any]) -> str:
    mark = "[red]regressed[/]" if part["regressed"] else ""
    interval = f"{points(part['low'])} to {points(part['high'])}"
    return f"  {escape(part['name'])}: {points(part['difference'])} ({interval}), {part['tasks']} tasks {mark}"


def percent(share: float) -> str:
    """A share as a percentage with one decimal."""
    return f"{100 * share:.1f} %"


def points(difference: float) -> str:
    """A difference of shares in signed percentage points."""
    return f"{100 * difference:+.1f}"
