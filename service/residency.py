"""Residency: which versions the replicas hold. Loads, proves and retires them; never touches the pointer."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import structlog
from anyio import to_thread

from agents.adapter import AdapterRef, AdapterRefused, Manifest, read_manifest
from agents.engine import EngineFault, LoadRefused
from agents.environment import Environment
from bank.checkpoint import BASE, Checkpoint
from service.fleet import Fleet
from service.probe import probe
from service.replica import Replica

log = structlog.get_logger(__name__)


class NoRoom(Exception):
    """Every slot of a replica is taken by a version that is in use or on the way back."""


class Residency:
    """Not safe for concurrent use: `Swap` holds its lock around every call."""

    def __init__(self, fleet: Fleet, suite: Environment, *, slots: int, tolerance: float) -> None:
        """`slots`: adapters per replica. `suite`, `tolerance` (nats): of the probe."""
        self._fleet = fleet
        self._suite = suite
        self._slots = slots
        self._tolerance = tolerance
        self._keep: frozenset[str] = frozenset()

    def keep(self, names: Iterable[str]) -> None:
        """Versions that may not be retired from now on."""
        self._keep = frozenset(names)

    async def refresh(self) -> None:
        """Ask every replica what it holds; one that does not answer holds nothing."""
        for replica in self._fleet.replicas:
            try:
                await replica.versions()
            except EngineFault as error:
                log.warning("a replica does not answer", replica=replica.name, error=str(error))

    async def ensure(self, row: Checkpoint, base: Checkpoint) -> None:
        """Have every replica hold and prove the version.

        Raises `AdapterRefused`, `LoadRefused` or `ProbeFailed` when the version is not what it claims to be, `NoRoom` or
        another `EngineFault` when that could not be found out. A version that failed is unloaded again.
        """
        lacking = [replica for replica in self._fleet.replicas if not replica.holds(row.name, row.digest)]
        if row.name == BASE:
            _trust_base(lacking, row.digest)
        elif lacking:
            adapter = AdapterRef(row.name, row.digest, Path(row.path))
            manifest = await to_thread.run_sync(_verified, adapter, base)
            for replica in lacking:
                await self._bring_up(replica, adapter, manifest)

    async def retire(self) -> None:
        """Unload what is neither kept nor in use."""
        for replica in self._fleet.replicas:
            for name in self._idle(replica):
                await replica.unload(name)
                log.info("version retired", version=name, replica=replica.name)

    async def _bring_up(self, replica: Replica, adapter: AdapterRef, manifest: Manifest) -> None:
        await self._make_room(replica, adapter.name)
        try:
            await replica.load(adapter)
            await probe(replica, adapter, manifest.probe, self._suite, self._tolerance)
        except BaseException:
            with suppress(EngineFault):
                await replica.unload(adapter.name)
            raise
        replica.prove(adapter.name, adapter.digest)

    async def _make_room(self, replica: Replica, newcomer: str) -> None:
        others = set(replica.resident) - {BASE, newcomer}
        if len(others) < self._slots:
            return
        for name in self._idle(replica):
            await replica.unload(name)
        others &= set(replica.resident)
        if len(others) >= self._slots:
            raise NoRoom(f"{replica.name} holds {len(others)} versions that are in use or kept: {sorted(others)}")

    def _idle(self, replica: Replica) -> list[str]:
        return [name for name in replica.resident if name not in self._keep | {BASE} and not replica.leases[name]]


def _trust_base(replicas: Iterable[Replica], digest: str) -> None:
    for replica in replicas:
        if replica.resident.get(BASE) != digest:
            raise LoadRefused(f"{replica.name} does not serve the base with digest {digest[:12]}")
        replica.prove(BASE, digest)


def _verified(adapter: AdapterRef, base: Checkpoint) -> Manifest:
    try:
        manifest = read_manifest(adapter)
    except (OSError, ValueError) as error:
        raise AdapterRefused(f"{adapter.name}: the folder can't be read: {error}") from error
    if manifest.base_digest != base.digest:
        raise AdapterRefused(f"{adapter.name} was trained on another base ({manifest.base_digest[:12]})")
    return manifest
