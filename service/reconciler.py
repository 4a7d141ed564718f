"""Reconciler: the service's own hand. Keeps the engines at what the ledger says and swaps approved checkpoints in."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import structlog

from agents.engine import EngineFault
from bank.checkpoint import Checkpoint, CheckpointStatus
from bank.ledger.errors import NotPromotable, StaleGeneration
from bank.ledger.ledger import Books
from service.books import BooksAsync
from service.fleet import Fleet
from service.residency import NoRoom
from service.swap import Change, Swap, Unproven
from service.telemetry import Telemetry

log = structlog.get_logger(__name__)

ACTOR = "gate"
LONGEST_PAUSE = 60.0


class Reconciler:
    """One pass a period, for ever."""

    def __init__(self, books: BooksAsync, fleet: Fleet, swap: Swap, telemetry: Telemetry) -> None:
        self._books = books
        self._fleet = fleet
        self._swap = swap
        self._telemetry = telemetry

    async def run(self, period: float) -> None:
        """Passes until cancelled; after failures the pauses grow to a minute."""
        failures = 0
        while True:
            await asyncio.sleep(min(period * 2**failures, max(period, LONGEST_PAUSE)))
            failures = 0 if await self.attempt() else min(failures + 1, 16)

    async def tick(self) -> None:
        """One pass. Raises what `Swap.restore` does."""
        await self._swap.restore()
        self._telemetry.generation.set(self._fleet.pointer.generation if self._fleet.pointer else 0)
        for row in await self._books.read(lambda books: books.checkpoints.with_status(CheckpointStatus.APPROVED)):
            await self._swap_in(row)

    async def attempt(self) -> bool:
        """A pass that reports instead of raising.

        The one broad except of this process: a service whose reconciler died would look healthy and never improve.
        """
        try:
            await self.tick()
        except Exception as error:
            self._telemetry.reconcile_failures.inc()
            log.exception("reconciling failed", error=str(error))
            return False
        return True

    async def _swap_in(self, row: Checkpoint) -> None:
        live = await self._books.read(lambda books: books.deployments.current())
        if live is None:
            return
        if row.parent not in (None, live.current):
            await self._hand_over(row, f"judged against {row.parent}, but {live.current} is live now")
            return
        try:
            await self._swap.promote(row.name, Change(ACTOR, _reason(row), live.generation))
        except (Unproven, NotPromotable, StaleGeneration) as error:
            log.warning("approved version not swapped in", version=row.name, error=str(error))
        except (NoRoom, EngineFault) as error:
            log.warning("approved version waits", version=row.name, error=str(error))

    async def _hand_over(self, row: Checkpoint, reason: str) -> None:
        """A verdict counts only against the version it was reached on; from here an operator decides."""
        now = datetime.now(UTC)

        def write(books: Books) -> None:
            books.checkpoints.set_status(row.name, CheckpointStatus.CANDIDATE, reason)
            books.audit.add(ACTOR, "checkpoint.handed_over", row.name, {"reason": reason}, now)

        await self._books.write(write)
        log.warning("approved version needs an operator", version=row.name, reason=reason)


def _reason(row: Checkpoint) -> str:
    if row.gate is None:
        return "approved"
    return f"{row.gate.verdict.value}: {row.gate.difference:+.3f} [{row.gate.low:+.3f}, {row.gate.high:+.3f}]"
