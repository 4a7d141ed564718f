"""Options that several commands share, and how a command reaches its service."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from service.client import OPERATOR_KEY, RatchetClient, operator_key

DEFAULT_URL = "http://127.0.0.1:8000"
DEFAULT_DATA = Path(".ratchet")
LOG_WIDTH = 160

Url = Annotated[str, typer.Option("--url", envvar="RATCHET_URL", help="Where the service listens.")]
Key = Annotated[
    str | None,
    typer.Option("--key", envvar="RATCHET_API_KEY", help=f"API key; default: {OPERATOR_KEY} in the data folder."),
]
Data = Annotated[Path, typer.Option("--data", envvar="RATCHET_DATA", help="Data folder of the embedded service.")]
Json = Annotated[bool, typer.Option("--json", help="Print the answer as JSON, for scripts.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="How many, newest first.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Goes into the audit log.")]


def connect(url: str, key: str | None) -> RatchetClient:
    """A client with the given key, or with the operator key that an embedded service left in its data folder."""
    return RatchetClient(url, key or operator_key(Path(os.environ.get("RATCHET_DATA", DEFAULT_DATA))))


def console() -> Console:
    """Standard output, as wide as the terminal; wide enough for whole lines in a log file."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else LOG_WIDTH)


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def given(**fields: Any) -> dict[str, Any]:
    """The fields that were given, so that the service's own defaults hold for the others."""
    return {key: value for key, value in fields.items() if value is not None}
