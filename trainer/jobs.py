"""What the tasks do. Whoever calls, and however often: the ledger says what there is to do. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from bank.broker import RELAY_QUEUE, ROUNDS_QUEUE
from bank.ledger.ledger import Books, Ledger
from bank.relay import rebuild, relay
from bank.round import Round, RoundStatus
from trainer.heart import Heart
from trainer.index_door import IndexDoor
from trainer.lease import utc_now
from trainer.schedule import create_round
from trainer.settings import Settings

RECENT_ROUNDS = 1_000
ACTOR = "worker"

log = structlog.get_logger(__name__)


class LedgerJobs:
    """`trainer.tasks.Jobs` on one ledger."""

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        door: IndexDoor,
        heart: Heart,
        run: Callable[[Round], None],
        stopping: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._door = door
        self._heart = heart
        self._run = run
        self._stopping = stopping

    def run_rounds(self) -> None:
        """Claim and run rounds until none is left or this process is asked to end."""
        self._heart.beat(ROUNDS_QUEUE)
        while not self._stopping() and (claimed := self._claim()) is not None:
            self._run(claimed)

    def relay(self) -> None:
        """Bring the index up to the ledger, and end the rounds that lost their workers for good."""
        self._heart.beat(RELAY_QUEUE)
        with self._ledger.write() as books:
            self._give_up(books)
        with self._ledger.read() as books:
            waiting = books.experiences.pending(1) or books.experiences.withdrawn_unapplied(1)
        if waiting:
            self._carry()

    def repair(self) -> None:
        """Make the index hold what the ledger says, also where it was lost or brought deleted points back."""
        with self._door.open() as index:
            rebuild(self._ledger, index, self._door.embedder)

    def schedule_round(self) -> None:
        """Create the round of the current slot, unless it exists, and run what there is."""
        created = create_round(self._ledger, self._settings.schedule, utc_now())
        log.info("schedule slot", round=created.id if created else None)
        self.run_rounds()

    def take_over(self) -> None:
        """End the leases of a worker that is known to be dead, so that its rounds can be claimed at once.

        Only for the process that holds the data folder's worker lock: no other worker can be alive then.
        """
        with self._ledger.write() as books:
            for row in books.rounds.latest(RECENT_ROUNDS):
                if row.status in (RoundStatus.RUNNING, RoundStatus.CANCELLING):
                    books.rounds.renew(row.id, row.fence, utc_now())

    def _claim(self) -> Round | None:
        with self._ledger.write() as books:
            self._give_up(books)
            return books.rounds.claim(utc_now(), self._settings.lease_seconds, self._settings.max_attempts)

    def _give_up(self, books: Books) -> None:
        """The watchdog: whoever held these is gone, and nobody shall try again."""
        for row in books.rounds.give_up(utc_now(), self._settings.max_attempts):
            alert = {"status": row.status.value, "attempts": row.attempts, "error": row.error}
            books.audit.add(ACTOR, "round.given_up", row.id, alert, utc_now())
            log.error("round given up", round=row.id, **alert)

    def _carry(self) -> None:
        handled = 0
        with self._door.open() as index:
            while not self._stopping() and (count := relay(self._ledger, index, self._door.embedder)):
                handled += count
                self._heart.beat(RELAY_QUEUE)
        log.info("index up to date", handled=handled)
