"""`python -m benchmarks.chaos`: every drill on SQLite and on PostgreSQL, a table, and reports/chaos.json."""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.chaos.feedback import feedback_drill
from benchmarks.chaos.setting import Setting
from benchmarks.chaos.starts import starts_drill
from benchmarks.chaos.twins import twins_drill
from tests.postgres_server import running_postgres

Figures = dict[str, float]
DRILLS: dict[str, Callable[[Setting], Figures]] = {
    "full rate": partial(feedback_drill, kill=False),
    "kill -9 under load": partial(feedback_drill, kill=True),
    "twins": twins_drill,
    "five starts": starts_drill,
}
DATABASES = ("sqlite", "postgres")
REPORT = "chaos.json"


def chaos(
    seed: Annotated[int, typer.Option(help="Of everything drawn.")] = 0,
    seconds: Annotated[
        float, typer.Option(help="Load of each feedback drill; 30 for the figures in the README.")
    ] = 6.0,
    senders: Annotated[int, typer.Option(help="Requests in flight.")] = 64,
    reports: Annotated[Path, typer.Option(help="Where chaos.json goes.")] = Path("reports"),
) -> None:
    """Kill things and count what is lost."""
    console = Console()
    console.print(f"seed {seed}")
    rng = random.Random(seed)
    began = time.monotonic()
    rows = []
    with running_postgres() as server:
        for database in DATABASES:
            for name, drill in DRILLS.items():
                with _folder() as folder:
                    url = server.new_database() if database == "postgres" else f"sqlite:///{folder / 'ledger.sqlite3'}"
                    figures = drill(Setting(folder, url, database, seconds, senders, rng))
                rows.append({"drill": name, "database": database, **figures})
                console.print(f"{database} · {name}: {_line(figures)}")
    report = {"seed": seed, "seconds": round(time.monotonic() - began, 1), **totals(rows), "drills": rows}
    reports.mkdir(parents=True, exist_ok=True)
    (reports / REPORT).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    console.print(_table(report))


def totals(rows: list[dict[str, object]]) -> Figures:
    """Sums over the drills; the rate is each database's at full rate."""
    summed = ("feedback_acknowledged", "feedback_stored", "feedback_doubled", "kills", "unknown_ids")
    found = {key: sum(float(str(row.get(key, 0))) for row in rows) for key in summed}
    rates = {
        f"feedback_per_s_{row['database']}": float(str(row["feedback_per_s"]))
        for row in rows
        if row["drill"] == "full rate"
    }
    return found | rates


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ratchet-chaos-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _line(figures: Figures) -> str:
    return ", ".join(f"{key} {value:g}" for key, value in figures.items())


def _table(report: dict[str, object]) -> Table:
    table = Table("figure", "value")
    for key, value in report.items():
        if key != "drills":
            table.add_row(key, f"{value:g}" if isinstance(value, float) else str(value))
    return table


if __name__ == "__main__":
    typer.run(chaos)
