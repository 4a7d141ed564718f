"""The worker process: composition root of this room.

`python -m trainer.worker` takes tasks from both queues, one at a time, in this process (no fork: torch and
a forked child do not mix). In embedded mode it is the only one of its data folder, owns the local index and
keeps the clock itself. `python -m trainer.worker beat` is the clock alone, for a deployment with a broker.

Lost work is found in the ledger, not in the broker: messages are acknowledged when they arrive, so no
visibility timeout can deliver a long round twice, and a poll every few seconds picks up what a dead worker left.
"""

from __future__ import annotations

import fcntl
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from celery import Celery, signals
from celery.beat import EmbeddedService
from celery.worker import state

from trainer.settings import Settings
from trainer.tasks import RELAY, RELAY_QUEUE, RESUME_ROUNDS, ROUNDS_QUEUE, build_app, register

if TYPE_CHECKING:
    from trainer.workshop import Workshop

IN_MEMORY_CLOCK = "celery.beat:Scheduler"
"""What a slot created is in the ledger; a schedule file would only add something that can break."""
LOCK = "worker.lock"

log = structlog.get_logger(__name__)


class AlreadyRunning(RuntimeError):
    """Another worker owns this data folder."""


def main(arguments: list[str]) -> int:
    """Run the worker, or the clock alone for `["beat"]`; returns the exit code."""
    log_to_stderr()
    settings = Settings()
    app = build_app(settings)
    if arguments == ["beat"]:
        app.Beat(scheduler_cls=IN_MEMORY_CLOCK, loglevel="WARNING", quiet=True).run()
        return 0
    if arguments:
        sys.stderr.write("usage: python -m trainer.worker [beat]\n")
        return 2
    try:
        return serve(settings, app)
    except AlreadyRunning as error:
        log.warning("not started", reason=str(error))
        return 1


def serve(settings: Settings, app: Celery) -> int:
    """Take tasks until asked to end. Raises `AlreadyRunning`."""
    with ExitStack() as stack:
        if settings.embedded:
            stack.enter_context(only_worker(settings.data))
        # Here and not above: the clock, and a worker that is one too many, must not load torch.
        from bank.relay import rebuild  # noqa: PLC0415
        from trainer.jobs import WorkshopJobs  # noqa: PLC0415

        shop = open_workshop(settings, stack, stopping)
        jobs = WorkshopJobs(shop)
        # also on a server: one that was killed may have lost points, or brought deleted ones back
        rebuild(shop.ledger, shop.index, shop.embedder)
        if settings.embedded:
            jobs.take_over()
        register(app, jobs)
        on_ready = _starter(app, embedded=settings.embedded)
        signals.worker_ready.connect(on_ready)
        stack.callback(signals.worker_ready.disconnect, on_ready)
        worker = app.Worker(
            pool="solo",
            queues=[ROUNDS_QUEUE, RELAY_QUEUE],
            loglevel="WARNING",
            quiet=True,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
        )
        worker.start()
        return int(worker.exitcode or 0)


def open_workshop(settings: Settings, stack: ExitStack, stopping: Callable[[], bool]) -> Workshop:
    """Open everything that rounds need; `stack` closes it again."""
    from rich.console import Console  # noqa: PLC0415
    from transformers.utils.logging import disable_progress_bar  # noqa: PLC0415

    from agents.model_folder import model_folder  # noqa: PLC0415
    from agents.suites import open_suite  # noqa: PLC0415
    from trainer.progress import Reporter  # noqa: PLC0415
    from trainer.rebuild import open_bank  # noqa: PLC0415
    from trainer.workshop import Workshop  # noqa: PLC0415

    disable_progress_bar()
    bank = open_bank(settings, stack)
    return Workshop(
        settings=settings,
        ledger=bank.ledger,
        index=bank.index,
        embedder=bank.embedder,
        environment=open_suite(settings.suite),
        model=model_folder(settings.model),
        reporter=Reporter(Console(stderr=True)),
        stopping=stopping,
    )


def stopping() -> bool:
    """Whether Celery was told to end this process; a round asks after every step."""
    return any(flag is not None and flag is not False for flag in (state.should_stop, state.should_terminate))


@contextmanager
def only_worker(data: Path) -> Iterator[None]:
    """Hold the data folder's worker lock; the system gives it back however the process ends."""
    data.mkdir(parents=True, exist_ok=True)
    with (data / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(f"another worker owns {data}") from None
        yield


def log_to_stderr() -> None:
    """One line per event; Celery's own lines from warnings on."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _starter(app: Celery, *, embedded: bool) -> Callable[..., None]:
    def on_ready(**_: Any) -> None:
        if embedded:
            EmbeddedService(app, thread=True, scheduler_cls=IN_MEMORY_CLOCK).start()
        app.send_task(RELAY)
        app.send_task(RESUME_ROUNDS)
        log.info("worker ready")

    return on_ready


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
