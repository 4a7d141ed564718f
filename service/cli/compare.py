"""`ratchet compare`: every training method under the same conditions, in a process of the trainer's own."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated

import typer

from service.cli.up import require_trainer

Suite = Annotated[str, typer.Option(help="Suite; with :<seed> every run gets that world, else each seed its own.")]
Methods = Annotated[str, typer.Option(help="all, or names with commas.")]
Ablations = Annotated[str, typer.Option(help="Variants of LOPD: all, or labels with commas.")]
Seeds = Annotated[int, typer.Option(min=1)]
Size = Annotated[str, typer.Option(help="smoke, small or full.")]
Out = Annotated[str, typer.Option(help="Where results go; finished runs found there are not made again.")]


def compare(
    suite: Suite = "order_desk",
    methods: Methods = "all",
    ablations: Ablations = "",
    seeds: Seeds = 5,
    size: Size = "small",
    out: Out = "reports/compare",
) -> None:
    """Train with every method from the same rollouts, judge on the same held-out tasks; resumes where it was stopped."""
    require_trainer()
    options = {"suite": suite, "methods": methods, "ablations": ablations, "seeds": seeds, "size": size, "out": out}
    given = [f"--{name}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "trainer.compare", *given]
    try:
        code = subprocess.run(command, check=False).returncode  # noqa: S603 - our own module with checked options
    except KeyboardInterrupt:
        typer.echo("stopped; the same command goes on from here", err=True)
        raise typer.Exit(130) from None
    raise typer.Exit(code)
