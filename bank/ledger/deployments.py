"""Deployments: the pointer that says which version answers, moved by compare-and-set."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

from sqlalchemy import Connection, insert, select

from bank.checkpoint import CheckpointStatus
from bank.deployment import Deployment
from bank.ledger.errors import NotFound, NotPromotable, StaleGeneration
from bank.ledger.guard import try_insert
from bank.ledger.tables.checkpoints import checkpoints
from bank.ledger.tables.deployments import deployments


class Deployments:
    """Repository of the pointer and its history."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def current(self) -> Deployment | None:
        """Where the pointer is; None before the first flip."""
        newest = self.history(1)
        return newest[0] if newest else None

    def history(self, limit: int) -> tuple[Deployment, ...]:
        """Newest first."""
        query = select(deployments).order_by(deployments.c.generation.desc()).limit(limit)
        return tuple(Deployment(**row) for row in self._connection.execute(query).mappings())

    def flip(self, expected_generation: int, to: str, actor: str, reason: str, at: datetime) -> Deployment:
        """Move the pointer to a checkpoint; the new row has generation `expected_generation` + 1.

        `expected_generation` is that of the row the caller saw, 0 when there was none. Raises `StaleGeneration` when
        the pointer moved in between, `NotFound` for an unknown checkpoint, `NotPromotable` for a rejected one.
        """
        self._require_promotable(to)
        seen = self.current()
        generation = 0 if seen is None else seen.generation
        moved = Deployment(expected_generation + 1, to, None if seen is None else seen.current, actor, reason, at)
        if generation != expected_generation or not try_insert(
            self._connection, insert(deployments).values(asdict(moved))
        ):
            raise StaleGeneration(f"the deployment is at generation {generation}, not {expected_generation}")
        return moved

    def _require_promotable(self, name: str) -> None:
        query = select(checkpoints.c.status).where(checkpoints.c.name == name)
        status = self._connection.execute(query).scalar_one_or_none()
        if status is None:
            raise NotFound(f"there is no checkpoint {name}")
        if status is CheckpointStatus.REJECTED:
            raise NotPromotable(f"checkpoint {name} was rejected and can't answer users")
