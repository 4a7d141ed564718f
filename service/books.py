"""BooksAsync: the synchronous ledger, called from the event loop without holding it up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from bank.ledger.ledger import Books, Bulk, Ledger
from bank.ledger.outcome import Outcome
from service.grouped import Grouped

T = TypeVar("T")
P = TypeVar("P")

READERS = 4
"""Groups of readers at a time; a slow listing holds up one of them."""


class BooksAsync:
    """Transactions in threads, shared by the requests that wait at the same time. Belongs to one event loop."""

    def __init__(self, ledger: Ledger) -> None:
        self._reads = Grouped(ledger.read_all, READERS)
        # the ledger lets one writer in at a time
        self._writes = Grouped(ledger.write_all, 1)

    async def read(self, work: Callable[[Books], T]) -> T:
        """What `work` returns, inside a read transaction that began after this call."""
        return cast(T, await self._reads.ask(work))

    async def write(self, work: Callable[[Books], T]) -> T:
        """What `work` returns, committed when this returns; kept or undone as a whole, whatever its neighbours do."""
        return cast(T, await self._writes.ask(work))

    async def write_part(self, run: Callable[[Books, Sequence[P]], Sequence[Outcome]], part: P) -> Any:
        """As `write`, for work that is done for all who wait with the same statements: `run` gets every caller's part."""
        return await self._writes.ask(Bulk(run, part))
