"""The program `ratchet`: which commands there are, and what a failure looks like."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

import typer

from service.cli import bank, checkpoints, compare, demo, deployment, doctor, feedback, rounds, run, up
from service.client import ApiError, Unreachable

REFUSED = 1
UNREACHABLE = 3

program = typer.Typer(
    name="ratchet",
    help="A tool-use agent service that gets better every night and never slips back.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
program.command("up")(up.up)
program.command("demo")(demo.demo)
program.command("run")(run.run)
program.command("compare")(compare.compare)
program.command("feedback")(feedback.feedback)
program.add_typer(rounds.rounds, name="rounds")
program.add_typer(bank.bank, name="bank")
program.command("checkpoints")(checkpoints.checkpoints)
program.command("promote")(deployment.promote)
program.command("rollback")(deployment.rollback)
program.command("doctor")(doctor.doctor)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit: 0 done, 1 refused by the service, 2 wrong options, 3 nobody answers."""
    try:
        program(args=list(arguments) if arguments is not None else None, prog_name="ratchet")
    except ApiError as error:
        _fail(error, REFUSED)
    except Unreachable as error:
        _fail(error, UNREACHABLE)
    sys.exit(0)


def _fail(error: Exception, code: int) -> NoReturn:
    typer.echo(f"ratchet: {error}", err=True)
    sys.exit(code)
