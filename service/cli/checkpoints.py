"""`ratchet checkpoints`: the versions of the student."""

from __future__ import annotations

from typing import Annotated

import typer

from service.cli.options import DEFAULT_URL, Json, Key, Limit, Url, connect, console, print_json
from service.screen.checkpoint_view import print_checkpoint, print_checkpoints

Name = Annotated[str | None, typer.Argument(help="One checkpoint in full; without it, the list.")]


def checkpoints(
    name: Name = None, limit: Limit = 20, url: Url = DEFAULT_URL, key: Key = None, as_json: Json = False
) -> None:
    """List the versions of the student, or show one with its lineage and the gate's report."""
    with connect(url, key) as client:
        answer = client.get(f"/v1/checkpoints/{name}") if name else client.get("/v1/checkpoints", limit=limit)
    if as_json:
        print_json(answer)
    elif name is None:
        print_checkpoints(console(), answer["checkpoints"])
    else:
        print_checkpoint(console(), answer)
