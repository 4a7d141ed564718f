"""What the tasks do, on one workshop. Whoever calls, and however often: the ledger says what there is to do."""

from __future__ import annotations

import structlog

from bank.relay import relay
from bank.round import RoundStatus
from trainer.lease import utc_now
from trainer.round import run_round
from trainer.schedule import create_round
from trainer.workshop import Workshop

RECENT_ROUNDS = 1_000

log = structlog.get_logger(__name__)


class WorkshopJobs:
    """`trainer.tasks.Jobs` of this process."""

    def __init__(self, shop: Workshop) -> None:
        self._shop = shop

    def run_rounds(self) -> None:
        """Claim and run rounds until none is left or this process is asked to end."""
        settings = self._shop.settings
        while not self._shop.stopping():
            with self._shop.ledger.write() as books:
                claimed = books.rounds.claim(utc_now(), settings.lease_seconds, settings.max_attempts)
            if claimed is None:
                return
            run_round(self._shop, claimed)

    def relay(self) -> None:
        """Bring the index up to the ledger."""
        handled = 0
        while not self._shop.stopping() and (count := relay(self._shop.ledger, self._shop.index, self._shop.embedder)):
            handled += count
        if handled:
            log.info("index up to date", handled=handled)

    def schedule_round(self) -> None:
        """Create the round of the current slot, unless it exists, and run what there is."""
        created = create_round(self._shop.ledger, self._shop.settings.schedule, utc_now())
        log.info("schedule slot", round=created.id if created else None)
        self.run_rounds()

    def take_over(self) -> None:
        """End the leases of a worker that is known to be dead, so that its rounds can be claimed at once.

        Only for the process that holds the data folder's worker lock: no other worker can be alive then.
        """
        with self._shop.ledger.write() as books:
            for row in books.rounds.latest(RECENT_ROUNDS):
                if row.status in (RoundStatus.RUNNING, RoundStatus.CANCELLING):
                    books.rounds.renew(row.id, row.fence, utc_now())
