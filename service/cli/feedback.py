"""`ratchet feedback`: judge an episode, or take a judgement back."""

from __future__ import annotations

from typing import Annotated

import typer

from service.cli.options import DEFAULT_URL, Json, Key, Url, connect, given, print_json

THUMBS = {"up": 1.0, "down": 0.0}


def verdict(text: str) -> float:
    """A number from 0 to 1, or "up" or "down". Raises `typer.BadParameter`."""
    try:
        value = THUMBS[text] if text in THUMBS else float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither a number nor up or down") from None
    if not 0.0 <= value <= 1.0:
        raise typer.BadParameter(f"{text} is not in the range from 0 to 1")
    return value


Episode = Annotated[str | None, typer.Argument(help="Id of the episode, as `ratchet run` printed it.")]
Value = Annotated[
    float | None,
    typer.Option("--value", "--thumbs", parser=verdict, metavar="NUMBER|up|down", help="Verdict from 0 to 1."),
]
Comment = Annotated[str | None, typer.Option("--comment", help="Why, for people.")]
Retract = Annotated[str | None, typer.Option("--retract", metavar="ID", help="Take this feedback back.")]


def feedback(
    episode: Episode = None,
    value: Value = None,
    comment: Comment = None,
    retract: Retract = None,
    url: Url = DEFAULT_URL,
    key: Key = None,
    as_json: Json = False,
) -> None:
    """Judge an episode (a trusted success becomes an experience), or take it back with --retract."""
    if retract is None and (episode is None or value is None):
        raise typer.BadParameter("give an episode and --value or --thumbs, or --retract ID")
    with connect(url, key) as client:
        if retract is not None:
            row = client.delete(f"/feedback/{retract}")
        else:
            row = client.post("/feedback", given(episode_id=episode, value=value, comment=comment))
    if as_json:
        print_json(row)
    else:
        typer.echo(f"{row['id']}  {'retracted' if retract else 'stored'}")
