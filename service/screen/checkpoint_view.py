"""Versions of the student: the list, and one in full."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.pretty import Pretty
from rich.table import Table

from service.screen.gate_view import points, print_gate


def print_checkpoints(console: Console, rows: Iterable[Mapping[str, Any]]) -> None:
    """One line per version."""
    table = Table(box=None, pad_edge=False)
    # Names are there to be copied: never cut.
    table.add_column("name", no_wrap=True)
    for column in ("status", "gate", "created"):
        table.add_column(column, overflow="fold")
    for row in rows:
        gate = row.get("gate")
        verdict = f"{gate['verdict']} {points(gate['difference'])}" if gate else "-"
        table.add_row(row["name"], row["status"], verdict, str(row["created_at"])[:16])
    console.print(table)


def print_checkpoint(console: Console, row: Mapping[str, Any]) -> None:
    """One version: identity, gate report, lineage."""
    for field in ("name", "digest", "status", "parent", "round_id", "reason", "path", "created_at"):
        if row.get(field) is not None:
            console.print(f"[bold]{field:>10}[/]  {escape(str(row[field]))}")
    if row.get("gate"):
        print_gate(console, row["gate"])
    if row.get("lineage"):
        console.print(Pretty(row["lineage"], max_length=8, max_string=60))
