"""`ratchet demo`: the product's main job, end to end, before your eyes."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from service.cli.options import console

TRAFFIC = 1_600

Seed = Annotated[int, typer.Option("--seed", help="House to serve, and seed of everything drawn.")]
Seeds = Annotated[int | None, typer.Option("--seeds", min=1, help="Run seeds 0 to N-1, each on a fresh data folder.")]
Folder = Annotated[Path | None, typer.Option("--data", help="Empty folder to use and keep; default: a temporary one.")]
Keep = Annotated[bool, typer.Option("--keep/--exit", help="On a terminal: go on serving until Ctrl-C.")]
Runs = Annotated[int, typer.Option("--runs", min=1, help="Traffic played before the round.")]
Reports = Annotated[Path, typer.Option("--reports", help="Where demo.json and the plots go.")]


def demo(
    seed: Seed = 0,
    seeds: Seeds = None,
    data: Folder = None,
    runs: Runs = TRAFFIC,
    keep: Keep = True,
    reports: Reports = Path("reports"),
) -> None:
    """Serve an agent, fill its bank, train one round, judge it, swap it in, and measure before and after."""
    if seeds is not None and data is not None:
        raise typer.BadParameter("--data holds one run; leave it out with --seeds")
    # Imported here: `ratchet --help` needs no suites and no numbers.
    from service.demo.series import play_series  # noqa: PLC0415
    from service.demo.story import Demo  # noqa: PLC0415

    # SIGTERM unwinds like Ctrl-C: the service it started and the temporary folder must not outlive it.
    signal.signal(signal.SIGTERM, _leave)
    screen = console()
    stay = keep and seeds is None and screen.is_terminal
    chosen = [seed] if seeds is None else list(range(seeds))
    plans = [Demo(seed=each, data=data, reports=reports, traffic=runs, keep=stay) for each in chosen]
    failure = play_series(plans, screen, many=seeds is not None)
    if failure:
        typer.echo(f"ratchet demo: {failure}", err=True)
        raise typer.Exit(1)


def _leave(*_: object) -> NoReturn:
    sys.exit(143)
