"""RoundOffice: creates and cancels rounds. The ledger row is the order; the queue message is only a wake-up call."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import structlog
from anyio import to_thread

from bank.ids import new_id
from bank.ledger.errors import NotFound
from bank.ledger.ledger import Books
from bank.round import Round, RoundStatus, RoundStep
from service.auth import Caller
from service.books import BooksAsync
from service.jobs import Jobs, JobsAway

log = structlog.get_logger(__name__)


class RoundOffice:
    """The rules of rounds."""

    def __init__(self, books: BooksAsync, jobs: Jobs) -> None:
        self._books = books
        self._jobs = jobs

    async def start(self, config: dict[str, Any], caller: Caller) -> Round:
        """A queued round, announced to the workers. A lost announcement is harmless: workers also look for themselves."""
        now, round_id = datetime.now(UTC), new_id("rnd")
        row = Round(round_id, f"manual-{round_id}", RoundStatus.QUEUED, now, config)

        def write(books: Books) -> Round:
            books.audit.add(caller.id, "round.started", round_id, {"config": config}, now)
            return books.rounds.create(row)

        created = await self._books.write(write)
        try:
            await to_thread.run_sync(self._jobs.run_round, round_id)
        except JobsAway as error:
            log.warning("the queue did not take the round; a worker will find it", round=round_id, error=str(error))
        return created

    async def cancel(self, round_id: str, caller: Caller) -> Round:
        """The round after the request; a finished one stays as it is. Raises `NotFound`."""
        now = datetime.now(UTC)

        def write(books: Books) -> Round:
            row = books.rounds.request_cancel(round_id)
            books.audit.add(caller.id, "round.cancelled", round_id, {"status": row.status.value}, now)
            return row

        return await self._books.write(write)

    async def progress(self, round_id: str) -> tuple[Round, tuple[RoundStep, ...]]:
        """A round and its steps. Raises `NotFound`."""

        def read(books: Books) -> tuple[Round | None, tuple[RoundStep, ...]]:
            return books.rounds.get(round_id), books.rounds.steps(round_id)

        row, steps = await self._books.read(read)
        if row is None:
            raise NotFound(f"there is no round {round_id[:100]}")
        return row, steps
