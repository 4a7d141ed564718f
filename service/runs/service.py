"""Runs: admits them, plays them on a leased version, records their end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from agents.engine import Sampling
from agents.environment import Session, Task
from agents.limits import Limits
from agents.loop import Run
from bank.episode import Episode
from bank.ids import new_id
from bank.ledger.ledger import Books
from bank.ledger.outcome import Outcome
from bank.remember import remember
from service.books import BooksAsync
from service.errors import RETRY_AFTER, ServiceError
from service.fleet import Fleet, NoReplica
from service.runs.live import LiveRun
from service.telemetry import Telemetry
from service.worlds import Worlds


@dataclass(frozen=True, slots=True)
class Order:
    """What somebody wants done: a task of a suite, or their own words."""

    owner: str
    limits: Limits
    sampling: Sampling
    task_id: str | None = None
    text: str | None = None
    environment: str | None = None
    toolset: str | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """What bounds this service."""

    max_runs: int
    success_threshold: float


class Guest(Protocol):
    """Work in progress that a stopping service waits for, and then ends."""

    def cancel(self) -> None:
        """End it now."""
        ...

    async def end(self) -> object:
        """Return when it is over."""
        ...


class Runs:
    """Every run that this process is playing."""

    def __init__(self, books: BooksAsync, fleet: Fleet, worlds: Worlds, telemetry: Telemetry, rules: Rules) -> None:
        self._books = books
        self._fleet = fleet
        self._worlds = worlds
        self._telemetry = telemetry
        self._rules = rules
        self._seats = 0
        self._live: dict[str, LiveRun] = {}
        self._guests: set[Guest] = set()
        self._draining = False

    @property
    def draining(self) -> bool:
        """Whether the service is stopping."""
        return self._draining

    async def start(self, order: Order) -> LiveRun:
        """Begin a run. Raises `ServiceError` 404 (no such task) or 503 (busy, stopping, not ready)."""
        with ExitStack() as held:
            held.enter_context(self._seat())
            task, session = await self._session(order)
            return self._begin(order, task, session, held.pop_all())

    @contextmanager
    def host(self, guest: Guest) -> Iterator[None]:
        """Give work that is no run a seat, and an end when the service stops. Raises `ServiceError` 503."""
        with self._seat():
            self._guests.add(guest)
            try:
                yield
            finally:
                self._guests.discard(guest)

    def playing(self, episode_id: str) -> LiveRun | None:
        """The run while it has no record yet."""
        return self._live.get(episode_id)

    async def drain(self, seconds: float) -> None:
        """Admit nothing more; wait for the runs in progress, then end the rest as cancelled, on record."""
        self._draining = True
        ends = [asyncio.ensure_future(live.end()) for live in (*self._live.values(), *self._guests)]
        if ends:
            await asyncio.wait(ends, timeout=seconds)
        for live in (*self._live.values(), *self._guests):
            live.cancel()
        await asyncio.gather(*ends, return_exceptions=True)

    def _begin(self, order: Order, task: Task, session: Session, held: ExitStack) -> LiveRun:
        with held:
            self._require_open()
            try:
                lease = held.enter_context(self._fleet.lease())
            except NoReplica as error:
                raise ServiceError(503, "not_ready", str(error), headers=RETRY_AFTER) from None
            run = Run(new_id("ep"), task, lease.version, lease.digest, order.limits, order.sampling, order.owner)
            live = LiveRun(run, session, lease)
            held.enter_context(self._listed(live))
            live.start(self._record, held.pop_all())
            return live

    async def _session(self, order: Order) -> tuple[Task, Session]:
        if order.task_id is not None:
            return await self._worlds.task(order.environment, order.task_id)
        if order.toolset is not None:
            return await self._worlds.tools(order.toolset, order.text or "")
        return await self._worlds.live(order.environment, order.text or "")

    async def _record(self, episode: Episode) -> None:
        """Episode and experience in one transaction: what is answered afterwards is on disk."""
        await self._books.write_part(self._keep_all, episode)
        self._telemetry.count_run(episode)

    def _keep_all(self, books: Books, episodes: Sequence[Episode]) -> list[Outcome]:
        books.episodes.add_all(episodes)
        now = datetime.now(UTC)
        for episode in episodes:
            if episode.reward is not None:
                remember(books, episode, episode.reward, self._rules.success_threshold, now)
        return [Outcome()] * len(episodes)

    def _require_open(self) -> None:
        if self._draining:
            raise ServiceError(503, "shutting_down", "the service is stopping", headers=RETRY_AFTER)

    @contextmanager
    def _seat(self) -> Iterator[None]:
        self._require_open()
        if self._seats >= self._rules.max_runs:
            raise ServiceError(503, "busy", f"{self._seats} runs are in progress, try again", headers=RETRY_AFTER)
        self._seats += 1
        self._telemetry.in_flight.set(self._seats)
        try:
            yield
        finally:
            self._seats -= 1
            self._telemetry.in_flight.set(self._seats)

    @contextmanager
    def _listed(self, live: LiveRun) -> Iterator[None]:
        self._live[live.run.episode_id] = live
        try:
            yield
        finally:
            del self._live[live.run.episode_id]
