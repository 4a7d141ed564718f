"""Checkpoints: the versions of the student."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, RowMapping, Select, insert, select, update

from bank.checkpoint import Checkpoint, CheckpointStatus
from bank.gate_report import GateReport
from bank.ledger.errors import NotFound, SlotTaken
from bank.ledger.guard import try_insert
from bank.ledger.tables.checkpoints import checkpoints
from bank.ledger.tables.rounds import rounds


class Checkpoints:
    """Repository of checkpoints."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, checkpoint: Checkpoint) -> None:
        """Register a version; a second time with the same digest and round changes nothing.

        Raises `SlotTaken` when the name stands for other weights or the round has another candidate, `NotFound`
        without its round.
        """
        stored = self.get(checkpoint.name)
        if stored is not None and (stored.digest, stored.round_id) == (checkpoint.digest, checkpoint.round_id):
            return
        if stored is not None:
            raise SlotTaken(f"the name {checkpoint.name} stands for other weights (digest {stored.digest})")
        self._require_round(checkpoint.round_id)
        if not try_insert(self._connection, insert(checkpoints).values(_values(checkpoint))):
            raise SlotTaken(f"round {checkpoint.round_id} has another candidate already")

    def get(self, name: str) -> Checkpoint | None:
        """One version."""
        return self._first(select(checkpoints).where(checkpoints.c.name == name))

    def latest(self, limit: int) -> tuple[Checkpoint, ...]:
        """Newest first."""
        return self._all(select(checkpoints).order_by(checkpoints.c.number.desc()).limit(limit))

    def of_round(self, round_id: str) -> Checkpoint | None:
        """The candidate of a round."""
        return self._first(select(checkpoints).where(checkpoints.c.round_id == round_id))

    def with_status(self, status: CheckpointStatus) -> tuple[Checkpoint, ...]:
        """All versions in this state, oldest first."""
        return self._all(select(checkpoints).where(checkpoints.c.status == status).order_by(checkpoints.c.number))

    def set_status(self, name: str, status: CheckpointStatus, reason: str | None = None) -> None:
        """Change the state; a reason replaces the stored one. Raises `NotFound`."""
        self._update(name, {"status": status} if reason is None else {"status": status, "reason": reason})

    def set_gate(self, name: str, report: GateReport) -> None:
        """Store what the gate found. Raises `NotFound`."""
        self._update(name, {"gate": report.to_wire()})

    def _require_round(self, round_id: str | None) -> None:
        if round_id is None:
            return
        if self._connection.execute(select(rounds.c.id).where(rounds.c.id == round_id)).first() is None:
            raise NotFound(f"there is no round {round_id}")

    def _update(self, name: str, values: dict[str, Any]) -> None:
        changed = self._connection.execute(update(checkpoints).where(checkpoints.c.name == name).values(values))
        if changed.rowcount == 0:
            raise NotFound(f"there is no checkpoint {name}")

    def _first(self, query: Select[Any]) -> Checkpoint | None:
        row = self._connection.execute(query).mappings().first()
        return None if row is None else _checkpoint(row)

    def _all(self, query: Select[Any]) -> tuple[Checkpoint, ...]:
        return tuple(_checkpoint(row) for row in self._connection.execute(query).mappings())


def _values(checkpoint: Checkpoint) -> dict[str, Any]:
    values = {name: getattr(checkpoint, name) for name in checkpoints.c.keys() if name != "number"}  # noqa: SIM118
    return {**values, "gate": None if checkpoint.gate is None else checkpoint.gate.to_wire()}


def _checkpoint(row: RowMapping) -> Checkpoint:
    values = dict(row)
    del values["number"]
    gate = values.pop("gate")
    return Checkpoint(**values, gate=None if gate is None else GateReport.from_wire(gate))
