"""BooksAsync: the synchronous ledger, called from the event loop without holding it up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
from anyio import to_thread

from bank.ledger.ledger import Books, Ledger

T = TypeVar("T")

READERS = 8
WRITERS = 8


class BooksAsync:
    """One transaction per call, in a thread. Belongs to one event loop."""

    def __init__(self, ledger: Ledger, *, one_writer: bool) -> None:
        """`one_writer`: queue writers here, because SQLite lets them starve each other on its file lock."""
        self._ledger = ledger
        self._readers = anyio.CapacityLimiter(READERS)
        self._writers = anyio.CapacityLimiter(1 if one_writer else WRITERS)

    async def read(self, work: Callable[[Books], T]) -> T:
        """What `work` returns, inside one read transaction."""
        return await to_thread.run_sync(self._reading, work, limiter=self._readers)

    async def write(self, work: Callable[[Books], T]) -> T:
        """What `work` returns, committed when this returns."""
        return await to_thread.run_sync(self._writing, work, limiter=self._writers)

    def _reading(self, work: Callable[[Books], T]) -> T:
        with self._ledger.read() as books:
            return work(books)

    def _writing(self, work: Callable[[Books], T]) -> T:
        with self._ledger.write() as books:
            return work(books)
