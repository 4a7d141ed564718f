"""`ratchet rounds`: training rounds."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from service.cli.options import DEFAULT_URL, Json, Key, Limit, Url, connect, console, print_json
from service.screen.round_view import print_round, print_rounds
from service.screen.round_watch import watch_round

rounds = typer.Typer(name="rounds", help="Training rounds: list, start, show, watch, cancel.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(help="Id of the round.")]
Config = Annotated[str, typer.Option("--config", help="Overrides of the round's configuration, a JSON object.")]
Watch = Annotated[bool, typer.Option("--watch", help="Stay and watch it.")]


@rounds.command("list")
def list_rounds(limit: Limit = 20, url: Url = DEFAULT_URL, key: Key = None, as_json: Json = False) -> None:
    """The latest rounds."""
    with connect(url, key) as client:
        answer = client.get("/v1/rounds", limit=limit)
    if as_json:
        print_json(answer)
    else:
        print_rounds(console(), answer["rounds"])


@rounds.command("start")
def start(
    config: Config = "{}", watch: Watch = False, url: Url = DEFAULT_URL, key: Key = None, as_json: Json = False
) -> None:
    """Start a round now; only one runs at a time."""
    with connect(url, key) as client:
        created = client.post("/v1/rounds", {"config": _parsed(config)})
        if watch:
            created = watch_round(client, created["id"], console())
    _show(created, as_json)


@rounds.command("show")
def show(round_id: Id, url: Url = DEFAULT_URL, key: Key = None, as_json: Json = False) -> None:
    """One round with its steps."""
    with connect(url, key) as client:
        _show(client.get(f"/v1/rounds/{round_id}"), as_json)


@rounds.command("watch")
def watch(round_id: Id, url: Url = DEFAULT_URL, key: Key = None) -> None:
    """Live progress until the round ends; leaving does not stop it."""
    with connect(url, key) as client:
        _show(watch_round(client, round_id, console()), as_json=False)


@rounds.command("cancel")
def cancel(round_id: Id, url: Url = DEFAULT_URL, key: Key = None, as_json: Json = False) -> None:
    """Ask a round to stop after its current step."""
    with connect(url, key) as client:
        _show(client.post(f"/v1/rounds/{round_id}/cancel"), as_json)


def _show(body: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(body)
    else:
        print_round(console(), body)


def _parsed(config: str) -> dict[str, Any]:
    try:
        value = json.loads(config)
    except json.JSONDecodeError as error:
        raise typer.BadParameter(f"--config is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise typer.BadParameter('--config must be a JSON object, for example {"steps": 20}')
    return value
