"""`ratchet doctor`: what is wrong here, and what to do about it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from service.cli.options import DEFAULT_DATA, DEFAULT_URL, Data, Json, Key, Url, connect, console, print_json

if TYPE_CHECKING:
    from service.diagnosis.finding import Finding

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


def doctor(data: Data = DEFAULT_DATA, url: Url = DEFAULT_URL, key: Key = None, as_json: Json = False) -> None:
    """Check this machine and the running service; each line says what to do. Exits with 1 if something fails."""
    # Imported here: the checks need the database driver and the service's settings, `ratchet --help` does not.
    from service.diagnosis.local import local_findings  # noqa: PLC0415
    from service.diagnosis.remote import remote_findings  # noqa: PLC0415
    from service.settings import read_settings  # noqa: PLC0415

    os.environ["RATCHET_DATA"] = str(data)
    with connect(url, key) as client:
        findings = [*local_findings(read_settings()), *remote_findings(client)]
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        _print(findings)
    if any(finding.level == "fail" for finding in findings):
        raise typer.Exit(1)


def _print(findings: Sequence[Finding]) -> None:
    table = Table("", "check", box=None, pad_edge=False)
    for column in ("what was seen", "what to do"):
        table.add_column(column, overflow="fold")
    for finding in findings:
        colour = COLOURS[finding.level]
        table.add_row(f"[{colour}]{finding.level}[/]", finding.check, finding.detail, finding.advice)
    console().print(table)
