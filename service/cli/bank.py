"""`ratchet bank`: the experience index."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from service.cli.options import DEFAULT_DATA, Data
from service.cli.up import require_trainer

bank = typer.Typer(name="bank", help="The experience bank: rebuild its index.", no_args_is_help=True)

Everything = Annotated[bool, typer.Option("--all", help="Embed every experience anew, not only what is amiss.")]


@bank.callback()
def _group() -> None:
    """Keeps the subcommand's name although it is the only one."""


@bank.command("rebuild")
def rebuild(data: Data = DEFAULT_DATA, everything: Everything = False) -> None:
    """Make the index hold exactly what the ledger says. A local index must not be in use; a server may be."""
    require_trainer()
    environment = {**os.environ, "RATCHET_DATA": str(Path(data).expanduser().absolute())}
    command = [sys.executable, "-m", "trainer.rebuild", *(["--all"] if everything else [])]
    raise typer.Exit(subprocess.run(command, env=environment, check=False).returncode)  # noqa: S603 - our own module
