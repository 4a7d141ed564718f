"""`ratchet up`: the whole service on this machine, HTTP in this process and the trainer beside it."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from contextlib import suppress
from typing import Annotated, NoReturn

import typer

from service.cli.options import DEFAULT_DATA, Data, given
from service.supervisor import Child, Supervisor

REFUSED = 1
TRAINER_PACKAGES = ("torch", "transformers", "peft", "scipy")

Host = Annotated[str | None, typer.Option("--host", help="Address to listen on (RATCHET_HOST).")]
Port = Annotated[int | None, typer.Option("--port", min=1, max=65535, help="Port to listen on (RATCHET_PORT).")]
Model = Annotated[str | None, typer.Option("--model", help="Base model: tiny, or a model folder (RATCHET_MODEL).")]
Suite = Annotated[str | None, typer.Option("--suite", help="Tasks to train and judge on (RATCHET_SUITE).")]
Worker = Annotated[bool, typer.Option("--worker/--no-worker", help="Run training worker and schedule here too.")]


def up(
    data: Data = DEFAULT_DATA,
    host: Host = None,
    port: Port = None,
    model: Model = None,
    suite: Suite = None,
    worker: Worker = True,
) -> None:
    """Serve the agent, remember its successes and train on them: everything on this machine."""
    folder = data.expanduser().absolute()
    # The environment is what this process and its children agree on; options are laid over it once.
    for name, value in given(data=folder, host=host, port=port, model=model, suite=suite).items():
        os.environ[f"RATCHET_{name.upper()}"] = str(value)
    if worker:
        require_trainer()
    # Until uvicorn takes over, and again after it, SIGTERM must unwind the stack so that the children are ended.
    signal.signal(signal.SIGTERM, _leave)
    with suppress(KeyboardInterrupt), Supervisor(_children() if worker else [], os.environ, folder / "logs"):
        _serve()


def _serve() -> None:
    # Imported here: `ratchet --help` needs neither a web framework nor a database driver.
    from bank.broker import BrokerRefused  # noqa: PLC0415
    from service.app import create_app  # noqa: PLC0415
    from service.jobs import check_jobs  # noqa: PLC0415
    from service.server import Server  # noqa: PLC0415
    from service.settings import SettingsError, read_settings  # noqa: PLC0415

    try:
        settings = read_settings()
        check_jobs(settings.broker_url, settings.broker_visibility_seconds)
    except (SettingsError, BrokerRefused) as error:
        typer.echo(f"ratchet: {error}", err=True)
        raise typer.Exit(REFUSED) from None
    typer.echo(f"Ratchet on http://{settings.host}:{settings.port} (to read: /docs), data and logs in {settings.data}")
    server = Server(create_app(settings), settings)
    server.run()
    if not server.started:
        raise typer.Exit(REFUSED)


def _children() -> list[Child]:
    """The trainer is named, never imported: it lives in processes of its own."""
    worker = Child("worker", (sys.executable, "-m", "trainer.worker"))
    # Without a broker the worker keeps the clock itself.
    if not os.environ.get("RATCHET_BROKER_URL"):
        return [worker]
    return [Child(name, (*worker.command, name)) for name in ("rounds", "relay", "beat")]


def require_trainer() -> None:
    """Leave with what to install when the training packages are missing."""
    missing = [name for name in TRAINER_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        typer.echo(
            f"ratchet: {', '.join(missing)} not installed, and the embedded service trains on this machine.\n"
            "  pip install 'ratchet-agent[trainer]'   (or serve only: ratchet up --no-worker)",
            err=True,
        )
        raise typer.Exit(REFUSED)


def _leave(*_: object) -> NoReturn:
    sys.exit(0)
