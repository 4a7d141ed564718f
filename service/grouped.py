"""Grouped: many callers, one trip to the database.

While one group is on its way, the next one gathers: under load hundreds of requests share a thread switch and a commit, and a
lone request waits for nobody. Nobody is answered before the group's transaction has ended.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import anyio
from anyio import to_thread

from bank.ledger.ledger import Work
from bank.ledger.outcome import Outcome

LARGEST = 128
"""Pieces of work in one transaction: bounds how long a failing commit can keep anyone waiting."""


class Grouped:
    """Runs pieces of work in groups, `lanes` groups at a time. Belongs to one event loop."""

    def __init__(self, run: Callable[[Sequence[Work]], list[Outcome]], lanes: int) -> None:
        """`run` does a group in one transaction, in a thread of its own."""
        self._run = run
        self._lanes = lanes
        self._limiter = anyio.CapacityLimiter(lanes)
        self._waiting: deque[tuple[Work, asyncio.Future[Any]]] = deque()
        self._busy = 0
        self._tasks: set[asyncio.Task[None]] = set()
        """Of the busy lanes: the event loop alone would not keep them."""

    async def ask(self, work: Work) -> Any:
        """What `work` returns or raises, once its transaction has ended. Work that has begun is not interrupted."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((work, answer))
        if self._busy < self._lanes:
            self._busy += 1
            lane = asyncio.create_task(self._drain())
            self._tasks.add(lane)
            lane.add_done_callback(self._tasks.discard)
        return await answer

    async def _drain(self) -> None:
        while self._waiting:
            group = [self._waiting.popleft() for _ in range(min(LARGEST, len(self._waiting)))]
            outcomes = await self._outcomes([work for work, _ in group])
            for (_, answer), outcome in zip(group, outcomes, strict=True):
                _settle(answer, outcome)
        self._busy -= 1  # here, not when the task is done: who was just answered may ask again before that

    async def _outcomes(self, works: list[Work]) -> list[Outcome]:
        try:
            return await to_thread.run_sync(self._run, works, limiter=self._limiter)
        except Exception as error:  # noqa: BLE001 - not handled here: handed to every caller whose transaction it ended
            return [Outcome(error=error)] * len(works)


def _settle(answer: asyncio.Future[Any], outcome: Outcome) -> None:
    if answer.done():  # its caller was cancelled; what it asked for has happened all the same
        return
    if outcome.error is not None:
        answer.set_exception(outcome.error)
    else:
        answer.set_result(outcome.value)
