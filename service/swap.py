"""Swap: the only way the live version changes.

capacity -> verify the manifest -> load on every replica -> probe every replica -> flip the pointer by compare-and-set.
The previous version stays loaded, so the way back is the same flip. A version that can't be proven is marked rejected
and the pointer stays where it was; trouble that says nothing about the version (a replica that does not answer, no
room) rejects nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from agents.adapter import AdapterRefused
from agents.engine import LoadRefused
from bank.checkpoint import BASE, Checkpoint, CheckpointStatus
from bank.deployment import Deployment
from bank.ledger.errors import NotFound, NotPromotable, StaleGeneration
from bank.ledger.ledger import Books
from service.books import BooksAsync
from service.fleet import Fleet, Pointer
from service.probe import ProbeFailed
from service.residency import Residency
from service.way_back import keep_loaded, way_back

log = structlog.get_logger(__name__)

HISTORY = 200
"""Flips that are read to find the way back."""
DISPROOFS = (AdapterRefused, LoadRefused, ProbeFailed)
"""What says that a version is not what it claims to be."""


class NothingBefore(Exception):
    """There is no version to go back to."""


class Unproven(Exception):
    """The version is not what it claims to be; it was rejected."""


@dataclass(frozen=True, slots=True)
class Change:
    """Who wants the pointer moved, and why."""

    actor: str
    reason: str = ""
    expected: int | None = None
    """Generation that the actor saw; None accepts any."""
    action: str = "promote"
    """Name in the audit log."""


class Swap:
    """Moves the pointer, one change at a time."""

    def __init__(self, books: BooksAsync, fleet: Fleet, residency: Residency) -> None:
        self._books = books
        self._fleet = fleet
        self._residency = residency
        self._lock = asyncio.Lock()
        self._given_up: set[str] = set()

    async def promote(self, name: str, change: Change) -> Deployment:
        """Make `name` answer; nothing happens when it does already.

        Raises `NotFound`, `NotPromotable`, `StaleGeneration`, `Unproven`, `NoRoom` or `EngineFault`; the pointer then
        has not moved.
        """
        async with self._lock:
            return await self._move(await self._live(change), name, change)

    async def rollback(self, change: Change) -> Deployment:
        """Make the version answer that did before the current one. Raises `NothingBefore`, and as `promote`."""
        async with self._lock:
            live = await self._live(change)
            before = way_back(await self._history())
            if before is None:
                raise NothingBefore(f"nothing was served before {live.current}")
            return await self._move(live, before, change)

    async def restore(self) -> None:
        """Serve what the ledger says, loading what an engine lost or never had, and retire what nobody needs.

        Raises as `promote` when the live version can't be served; the pointer of this process then stays.
        """
        async with self._lock:
            history = await self._history()
            kept = keep_loaded(history)
            await self._residency.refresh()
            self._residency.keep(kept)
            if history:
                row = await self._load(history[0].current)
                self._fleet.point(Pointer(history[0].generation, row.name, row.digest))
                await self._load_others(kept - {row.name})
            await self._residency.retire()

    async def _live(self, change: Change) -> Deployment:
        live = await self._books.read(lambda books: books.deployments.current())
        if live is None:
            raise NotFound("nothing is deployed")
        if change.expected is not None and change.expected != live.generation:
            raise StaleGeneration(f"the deployment is at generation {live.generation}, not {change.expected}")
        return live

    async def _move(self, live: Deployment, name: str, change: Change) -> Deployment:
        row = await self._checkpoint(name)
        if name == live.current:
            return live
        if row.status is CheckpointStatus.REJECTED:
            raise NotPromotable(f"checkpoint {name} was rejected: {row.reason or 'no reason given'}")
        try:
            await self._load(name)
        except DISPROOFS as error:
            await self._reject(name, change, str(error))
            raise Unproven(f"{name}: {error}") from error
        return await self._flip(live, row, change)

    async def _flip(self, live: Deployment, row: Checkpoint, change: Change) -> Deployment:
        now = datetime.now(UTC)

        def write(books: Books) -> Deployment:
            moved = books.deployments.flip(live.generation, row.name, change.actor, change.reason, now)
            books.checkpoints.set_status(live.current, CheckpointStatus.RETIRED)
            books.checkpoints.set_status(row.name, CheckpointStatus.LIVE)
            detail = {"from": live.current, "generation": moved.generation, "reason": change.reason}
            books.audit.add(change.actor, f"deployment.{change.action}", row.name, detail, now)
            return moved

        moved = await self._books.write(write)
        self._fleet.point(Pointer(moved.generation, row.name, row.digest))
        self._residency.keep(keep_loaded(await self._history()))
        log.info("pointer moved", to=row.name, was=live.current, generation=moved.generation, actor=change.actor)
        return moved

    async def _reject(self, name: str, change: Change, reason: str) -> None:
        now = datetime.now(UTC)

        def write(books: Books) -> None:
            if name != BASE:
                books.checkpoints.set_status(name, CheckpointStatus.REJECTED, reason)
            books.audit.add(change.actor, "checkpoint.rejected", name, {"reason": reason}, now)

        await self._books.write(write)
        log.error("version rejected, the pointer stays", version=name, reason=reason)

    async def _load(self, name: str) -> Checkpoint:
        row = await self._checkpoint(name)
        await self._residency.ensure(row, await self._checkpoint(BASE))
        return row

    async def _load_others(self, names: frozenset[str]) -> None:
        """The way back should be short, but it must not stop the way forward: a failure is reported, once."""
        for name in sorted(names - self._given_up):
            try:
                await self._load(name)
            except (*DISPROOFS, NotFound) as error:
                self._given_up.add(name)
                log.warning("an earlier version can't be kept ready", version=name, error=str(error))

    async def _history(self) -> tuple[Deployment, ...]:
        return await self._books.read(lambda books: books.deployments.history(HISTORY))

    async def _checkpoint(self, name: str) -> Checkpoint:
        row = await self._books.read(lambda books: books.checkpoints.get(name))
        if row is None:
            raise NotFound(f"there is no checkpoint {name}")
        return row
