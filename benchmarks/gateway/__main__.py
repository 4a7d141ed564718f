"""`python -m benchmarks.gateway`: the gateway against direct, a table, and reports/gateway.json."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.chaos.gateway import Gateway
from benchmarks.gateway.measure import Arm, as_report, compare
from benchmarks.gateway.upstream import MODEL
from service.demo.server import free_port
from tests.postgres_server import running_postgres

WAITS = {"at once": 0, "50 ms": 50}
"""How long the server takes for an answer."""
REPORT = "gateway.json"
READY_SECONDS = 30.0


def main(
    seconds: Annotated[float, typer.Option(help="Load of each arm.")] = 5.0,
    senders: Annotated[int, typer.Option(help="Requests in flight.")] = 64,
    postgres: Annotated[bool, typer.Option(help="Keep the record in PostgreSQL instead of SQLite.")] = False,
    reports: Annotated[Path, typer.Option(help="Where gateway.json goes.")] = Path("reports"),
) -> None:
    """What the gateway adds to an engine that costs nothing."""
    report = run(seconds=seconds, senders=senders, postgres=postgres)
    reports.mkdir(parents=True, exist_ok=True)
    (reports / REPORT).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    table = Table("figure", *WAITS)
    for name in report["at once"]:
        table.add_row(name, *(f"{report[wait][name]:.3f}" for wait in WAITS))
    Console().print(table)


def run(*, seconds: float, senders: int, postgres: bool) -> dict[str, Any]:
    """Figures by how long the server takes, and the keys of reports/swap.json."""
    found: dict[str, Any] = {}
    with running_postgres() if postgres else nullcontext() as database:
        for name, milliseconds in WAITS.items():
            with tempfile.TemporaryDirectory(prefix="ratchet-gateway-", ignore_cleanup_errors=True) as folder:
                url = database.new_database() if database else f"sqlite:///{folder}/ledger.sqlite3"
                with upstream(milliseconds) as server:
                    program = ("-m", "benchmarks.gateway.serve", server)
                    with Gateway(Path(folder), url, program=program) as gateway:
                        arm = Arm(server, MODEL, {})
                        found[name] = compare(arm, gateway, seconds=seconds, senders=senders)
    return {"database": "postgres" if postgres else "sqlite", **as_report(found["at once"], found["50 ms"]), **found}


@contextmanager
def upstream(milliseconds: float) -> Iterator[str]:
    """Address of a server of its own process that takes so long for an answer."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.gateway.upstream", str(port), str(milliseconds)]
    process = subprocess.Popen(command)  # noqa: S603 - our own module
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(url, process)
        yield url
    finally:
        process.kill()
        process.wait()


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            if httpx.get(f"{url}/health", timeout=5).is_success:
                return
        except httpx.TransportError:
            if time.monotonic() > deadline or process.poll() is not None:
                raise
        time.sleep(0.05)


if __name__ == "__main__":
    typer.run(main)
