"""BooksAsync: the synchronous ledger, called from the event loop without holding it up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from bank.ledger.ledger import Books, Ledger
from service.grouped import Grouped

T = TypeVar("T")

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
        return await self._reads.ask(work)

    async def write(self, work: Callable[[Books], T]) -> T:
        """What `work` returns, committed when this returns; kept or undone as a whole, whatever its neighbours do."""
        return await self._writes.ask(work)
