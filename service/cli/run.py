"""`ratchet run`: one run of the agent."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from service.cli.options import DEFAULT_URL, Json, Key, Url, connect, console, given, print_json
from service.client import RatchetClient
from service.screen.run_view import print_outcome, print_step

Text = Annotated[str | None, typer.Argument(help="What you want, in your own words.")]
Task = Annotated[str | None, typer.Option("--task", help="Id of a task of the suite, instead of your own words.")]
Stream = Annotated[bool, typer.Option("--stream", help="Show each step when it happens.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Sampling seed: same seed and version, same answer.")]


def run(
    text: Text = None,
    task: Task = None,
    stream: Stream = False,
    seed: Seed = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: Json = False,
) -> None:
    """Ask the agent: your own words, or a task of the suite."""
    if (text is None) == (task is None):
        raise typer.BadParameter('give either a text or --task ID, for example: ratchet run "cancel order 17"')
    body = given(input=text, task_id=task, sampling=None if seed is None else {"seed": seed})
    with connect(url, key) as client:
        episode = _streamed(client, body, as_json) if stream else client.post("/v1/agent/runs", body)
    if as_json:
        print_json(episode)
        return
    for step in [] if stream else episode["steps"]:
        print_step(console(), step)
    print_outcome(console(), episode)


def _streamed(client: RatchetClient, body: dict[str, Any], quiet: bool) -> dict[str, Any]:
    """The finished episode; its steps are printed when they arrive. Exits with 1 when the stream breaks off."""
    for name, data in client.stream_run(body):
        if name == "step" and not quiet:
            print_step(console(), data)
        elif name == "done":
            return data
        elif name == "error":
            typer.echo(f"ratchet: {data.get('error', data)}", err=True)
            raise typer.Exit(1)
    typer.echo("ratchet: the stream ended before the run did", err=True)
    raise typer.Exit(1)
