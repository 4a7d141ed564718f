"""Lease: the hold a worker has on its round, renewed by a thread and checked at every write.

The fence makes a lost lease harmless: whoever claims the round next has a higher one, and every
write of this worker is refused from then on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self

import structlog
from sqlalchemy.exc import OperationalError

from bank.checkpoint import Checkpoint
from bank.ledger.ledger import Ledger
from bank.round import Round, RoundStatus, RoundStep

RENEWALS_PER_LEASE = 3

log = structlog.get_logger(__name__)


class RoundCancelled(Exception):
    """An operator asked for the end of the round."""


class WorkerStopping(Exception):
    """This process was asked to end; the round is left for the next worker."""


def utc_now() -> datetime:
    """The wall clock, with its zone."""
    return datetime.now(UTC)


class Lease:
    """A claimed round; a context manager while the work goes on.

    Every method raises `bank.ledger.errors.StaleFence` once another worker has claimed the round.
    """

    def __init__(self, ledger: Ledger, claimed: Round, seconds: float, stopping: Callable[[], bool]) -> None:
        self.round = claimed
        self._ledger = ledger
        self._seconds = seconds
        self._stopping = stopping
        self._ended = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="lease")
        self._renewing: Future[None] | None = None

    def __enter__(self) -> Self:
        self._renewing = self._thread.submit(self._keep)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.shutdown(wait=True)

    def check(self) -> None:
        """Renew now. Raises `RoundCancelled`, `WorkerStopping`, or whatever ended the renewing thread."""
        if self._renewing is not None and self._renewing.done():
            self._renewing.result()
        self.renew()
        with self._ledger.read() as books:
            if books.rounds.is_cancelling(self.round.id):
                raise RoundCancelled(self.round.id)
        if self._stopping():
            raise WorkerStopping(self.round.id)

    def renew(self) -> None:
        """Move the end of the lease."""
        self._until(utc_now() + timedelta(seconds=self._seconds))

    def release(self) -> None:
        """Let any worker claim the round at once; this attempt does not count."""
        with self._ledger.write() as books:
            books.rounds.give_back(self.round.id, self.round.fence, utc_now(), counted=False)

    def fail_attempt(self, error: str, pause: float) -> None:
        """Let any worker try the round again after `pause` seconds, until it has had all its attempts."""
        again = utc_now() + timedelta(seconds=pause)
        with self._ledger.write() as books:
            books.rounds.give_back(self.round.id, self.round.fence, again, error=error)

    def record(self, **fields: Any) -> None:
        """Phase, snapshot or parent of the round."""
        with self._ledger.write() as books:
            books.rounds.record(self.round.id, self.round.fence, **fields)

    def add_step(self, step: RoundStep) -> None:
        """One row of progress; repeating a step replaces its row."""
        with self._ledger.write() as books:
            books.rounds.add_step(step, self.round.fence)

    def finish(self, status: RoundStatus, *, checkpoint: Checkpoint | None = None, error: str | None = None) -> None:
        """The round's end and its candidate, in one transaction."""
        with self._ledger.write() as books:
            if checkpoint is not None:
                books.checkpoints.add(checkpoint)
            candidate = checkpoint.name if checkpoint is not None else None
            books.rounds.finish(self.round.id, self.round.fence, status, utc_now(), candidate=candidate, error=error)

    def _keep(self) -> None:
        while not self._ended.wait(self._seconds / RENEWALS_PER_LEASE):
            try:
                self.renew()
            except OperationalError as error:
                # A database that is away for a moment does not end a round; the lease has time for two more tries.
                log.warning("lease not renewed", round=self.round.id, error=str(error))

    def _until(self, moment: datetime) -> None:
        with self._ledger.write() as books:
            books.rounds.renew(self.round.id, self.round.fence, moment)
