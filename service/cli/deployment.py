"""`ratchet promote` and `ratchet rollback`: move the pointer that says which version answers."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from service.cli.options import DEFAULT_URL, Json, Key, Reason, Url, connect, given, print_json

Name = Annotated[str, typer.Argument(help='Checkpoint to serve; "base" is one like any other.')]
Expected = Annotated[
    int | None,
    typer.Option("--expected-generation", help="Refuse if somebody moved the pointer since you looked."),
]


def promote(
    checkpoint: Name,
    reason: Reason = None,
    expected: Expected = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: Json = False,
) -> None:
    """Serve a checkpoint: load it on every replica, probe it, then flip the pointer."""
    body = given(checkpoint=checkpoint, reason=reason, expected_generation=expected)
    _move("promote", body, url, key, as_json)


def rollback(
    reason: Reason = None, expected: Expected = None, url: Url = DEFAULT_URL, key: Key = None, as_json: Json = False
) -> None:
    """Go back to the version that was served before; takes a second, no request fails."""
    _move("rollback", given(reason=reason, expected_generation=expected), url, key, as_json)


def _move(action: str, body: dict[str, Any], url: str, key: str | None, as_json: bool) -> None:
    with connect(url, key) as client:
        pointer = client.post(f"/v1/deployment/{action}", body)
    if as_json:
        print_json(pointer)
    else:
        typer.echo(f"now serving {pointer['current']} (generation {pointer['generation']}, was {pointer['previous']})")
