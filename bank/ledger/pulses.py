"""Pulses: when each worker last took a task. A process that is up but takes nothing is as good as dead."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Connection, and_, delete, insert, or_, select

from bank.ledger.tables.pulses import pulses
from bank.pulse import Pulse

FORGOTTEN_AFTER = timedelta(days=1)
"""A worker that has been silent for so long is not coming back under that name."""


class Pulses:
    """Repository of pulses, one row for a queue and worker."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def beat(self, pulse: Pulse) -> None:
        """Replace the worker's last sign; forgets workers that are long gone."""
        mine = and_(pulses.c.queue == pulse.queue, pulses.c.worker == pulse.worker)
        self._connection.execute(delete(pulses).where(or_(mine, pulses.c.at < pulse.at - FORGOTTEN_AFTER)))
        self._connection.execute(insert(pulses).values(queue=pulse.queue, worker=pulse.worker, at=pulse.at))

    def latest(self) -> tuple[Pulse, ...]:
        """The newest of every queue."""
        newest: dict[str, Pulse] = {}
        for row in self._connection.execute(select(pulses).order_by(pulses.c.at)).mappings():
            newest[row["queue"]] = Pulse(**row)
        return tuple(newest.values())

    def of_worker(self, worker: str) -> tuple[Pulse, ...]:
        """One worker's signs."""
        mine = select(pulses).where(pulses.c.worker == worker)
        return tuple(Pulse(**row) for row in self._connection.execute(mine).mappings())
