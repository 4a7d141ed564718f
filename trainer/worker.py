"""The worker process: composition root of what takes tasks. It loads no torch for rounds: each runs in a fresh process.

`python -m trainer.worker` serves both queues, one task at a time; with `rounds` or `relay` one of them, so that a
deployment with a broker relays while a round runs; with `beat` it is the clock alone. In embedded mode one worker
serves its data folder and keeps the clock itself.

Lost work is found in the ledger, not in the broker: messages are acknowledged when they arrive, so no
visibility timeout can deliver a long round twice, and a poll every few seconds picks up what a dead worker left.
"""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import structlog
from celery import Celery, signals
from celery.beat import EmbeddedService
from celery.worker import state
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from bank.broker import RELAY_QUEUE, ROUNDS_QUEUE, BrokerAway, BrokerRefused, check_broker
from bank.index.unusable import IndexUnusable
from bank.ledger.errors import LedgerError
from bank.ledger.ledger import Ledger
from trainer.heart import Heart
from trainer.index_door import IndexDoor
from trainer.jobs import LedgerJobs
from trainer.logs import log_to_stderr
from trainer.round_watch import RoundWatch
from trainer.settings import Settings, SettingsRefused, read_settings
from trainer.tasks import QUEUES, RELAY, RESUME_ROUNDS, build_app, register

IN_MEMORY_CLOCK = "celery.beat:Scheduler"
"""What a slot created is in the ledger; a schedule file would only add something that can break."""
LOCK = "worker.lock"
BEAT = "beat"
REFUSED = 1
BROKER_PATIENCE_SECONDS = 60.0
FIRST_TASKS = {RELAY_QUEUE: RELAY, ROUNDS_QUEUE: RESUME_ROUNDS}

log = structlog.get_logger(__name__)


class AlreadyRunning(RuntimeError):
    """Another worker owns this data folder."""


def main(arguments: Sequence[str]) -> int:
    """Run the worker, or the clock alone for `["beat"]`; returns the exit code."""
    log_to_stderr()
    if any(argument not in (*QUEUES, BEAT) for argument in arguments):
        sys.stderr.write(f"usage: python -m trainer.worker [{' | '.join((*QUEUES, BEAT))}]\n")
        return 2
    try:
        settings = read_settings()
        await_broker(settings)
        app = build_app(settings)
        if list(arguments) == [BEAT]:
            app.Beat(scheduler_cls=IN_MEMORY_CLOCK, loglevel="WARNING", quiet=True).run()
            return 0
        return serve(settings, app, list(arguments) or list(QUEUES))
    except (AlreadyRunning, BrokerAway, BrokerRefused, IndexUnusable, LedgerError, SettingsRefused) as error:
        sys.stderr.write(f"ratchet: {error}\n")
        return REFUSED


def await_broker(settings: Settings) -> None:
    """Check the broker, once it answers. Raises `BrokerRefused`, and `BrokerAway` after a minute."""
    patience = Retrying(
        retry=retry_if_exception_type(BrokerAway),
        stop=stop_after_delay(BROKER_PATIENCE_SECONDS),
        wait=wait_exponential(0.2, max=5.0),
        reraise=True,
    )
    patience(check_broker, settings.broker_url, settings.broker_visibility_seconds)


def serve(settings: Settings, app: Celery, queues: Sequence[str]) -> int:
    """Take tasks until asked to end. Raises `AlreadyRunning`, `IndexUnusable` and `LedgerError`."""
    with ExitStack() as stack:
        settings.data.mkdir(parents=True, exist_ok=True)
        if settings.embedded:
            stack.enter_context(only_worker(settings.data))
        ledger = Ledger.open(settings.ledger, pool_size=settings.ledger_pool)
        stack.callback(ledger.close)
        door = IndexDoor(settings)
        stack.callback(door.close)
        heart = Heart(ledger, settings)
        watch = RoundWatch(settings, ledger, stopping, heart.round_beat)
        jobs = LedgerJobs(settings, ledger, door, heart, watch.run, stopping)
        if RELAY_QUEUE in queues:
            # also on a server: one that was killed may have lost points, or brought deleted ones back
            jobs.repair()
        if settings.embedded:
            jobs.take_over()
        register(app, jobs)
        _on_ready(app, queues, heart, stack, embedded=settings.embedded)
        return _consume(app, queues)


def _consume(app: Celery, queues: Sequence[str]) -> int:
    worker = app.Worker(
        pool="solo",
        queues=list(queues),
        loglevel="WARNING",
        quiet=True,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    worker.start()
    return int(worker.exitcode or 0)


def stopping() -> bool:
    """Whether Celery was told to end this process; a round asks after every step."""
    return any(flag is not None and flag is not False for flag in (state.should_stop, state.should_terminate))


@contextmanager
def only_worker(data: Path) -> Iterator[None]:
    """Hold the data folder's worker lock; the system gives it back however the process ends."""
    with (data / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(f"another worker owns {data}") from None
        yield


def _on_ready(app: Celery, queues: Sequence[str], heart: Heart, stack: ExitStack, *, embedded: bool) -> None:
    on_ready = _starter(app, queues, heart, embedded=embedded)
    signals.worker_ready.connect(on_ready)
    stack.callback(signals.worker_ready.disconnect, on_ready)


def _starter(app: Celery, queues: Sequence[str], heart: Heart, *, embedded: bool) -> Callable[..., None]:
    def on_ready(**_: Any) -> None:
        if embedded:
            EmbeddedService(app, thread=True, scheduler_cls=IN_MEMORY_CLOCK).start()
        for queue in queues:
            app.send_task(FIRST_TASKS[queue])
        heart.listen()
        log.info("worker ready", queues=list(queues))

    return on_ready


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
