"""LiveRun: one run while it is being played, and its end on record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from datetime import UTC, datetime

from agents.environment import Session
from agents.loop import Run, run_episode
from bank.episode import Episode, StopReason, Turn
from service.fleet import Lease

Record = Callable[[Episode], Awaitable[None]]


class LiveRun:
    """Plays in a task of its own, so that a caller who leaves can't tear the record."""

    def __init__(self, run: Run, session: Session, lease: Lease) -> None:
        self.run = run
        self._session = session
        self._lease = lease
        self._started = datetime.now(UTC)
        self._turns: list[Turn] = []
        self._news: asyncio.Queue[Turn | None] = asyncio.Queue()
        self._playing: asyncio.Task[Episode] | None = None
        self._ending: asyncio.Task[Episode] | None = None
        self._cancelled = False

    def start(self, record: Record, held: ExitStack) -> None:
        """Begin; `held` (seat and lease) is given back when the end is on record."""
        self._ending = asyncio.create_task(self._to_end(record))
        self._ending.add_done_callback(lambda _: self._close(held))

    def cancel(self) -> None:
        """End it now; it is recorded as cancelled, with the turns it had."""
        self._cancelled = True
        if self._playing is not None:
            self._playing.cancel()

    async def end(self) -> Episode:
        """The recorded episode. Cancelling the caller leaves the run alone."""
        if self._ending is None:
            raise RuntimeError("the run was not started")
        return await asyncio.shield(self._ending)

    async def turns(self) -> AsyncIterator[Turn]:
        """Turns as they happen."""
        while (turn := await self._news.get()) is not None:
            yield turn

    async def _to_end(self, record: Record) -> Episode:
        self._playing = asyncio.create_task(self._play())
        if self._cancelled:
            self._playing.cancel()
        try:
            episode = await self._playing
        except asyncio.CancelledError:
            episode = self._unfinished()
        await record(episode)
        return episode

    async def _play(self) -> Episode:
        return await run_episode(self._lease.replica, self._session, self.run, self._on_turn)

    def _on_turn(self, turn: Turn) -> None:
        self._turns.append(turn)
        self._news.put_nowait(turn)

    def _close(self, held: ExitStack) -> None:
        self._news.put_nowait(None)
        held.close()

    def _unfinished(self) -> Episode:
        """Nothing is rewarded that nobody waited for."""
        task = self.run.task
        return Episode(
            id=self.run.episode_id,
            created_at=self._started,
            task_id=task.id,
            suite=task.suite,
            split=task.split,
            task=task.text,
            policy=self.run.version,
            digest=self.run.digest,
            opening=tuple(self._session.opening),
            turns=tuple(self._turns),
            stop_reason=StopReason.CANCELLED,
            owner=self.run.owner,
        )
