"""Vital signs: counts and ages over several tables, for metrics and health checks."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, and_, func, or_, select

from bank.ledger.pulses import Pulses
from bank.ledger.tables.audit import audit
from bank.ledger.tables.experiences import experiences
from bank.ledger.tables.rounds import round_steps, rounds
from bank.round import RoundStatus
from bank.vitals import RunningRound, Vitals

HELD = (RoundStatus.RUNNING, RoundStatus.CANCELLING)
TO_ADD = and_(experiences.c.indexed_at.is_(None), experiences.c.withdrawn_at.is_(None))
TO_REMOVE = and_(experiences.c.withdrawn_at.is_not(None), experiences.c.removed_at.is_(None))


class VitalSigns:
    """Repository without rows of its own."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def read(self) -> Vitals:
        """Everything at once, in one view of the ledger."""
        waiting, since = self._outbox()
        by_status = select(rounds.c.status, func.count()).group_by(rounds.c.status)
        by_action = select(audit.c.action, func.count()).group_by(audit.c.action)
        return Vitals(
            outbox=waiting,
            outbox_since=since,
            rounds={row[0].value: row[1] for row in self._connection.execute(by_status)},
            running=self._running(),
            pulses=Pulses(self._connection).latest(),
            changes={row[0]: row[1] for row in self._connection.execute(by_action)},
        )

    def _outbox(self) -> tuple[int, datetime | None]:
        since = func.coalesce(experiences.c.withdrawn_at, experiences.c.created_at, type_=experiences.c.created_at.type)
        query = select(func.count(), func.min(since)).where(or_(TO_ADD, TO_REMOVE))
        count, oldest = self._connection.execute(query).one()
        return count, oldest

    def _running(self) -> tuple[RunningRound, ...]:
        query = select(rounds).where(rounds.c.status.in_(HELD)).order_by(rounds.c.number)
        return tuple(
            RunningRound(row["id"], row["phase"], row["attempts"], row["lease_until"], *self._progress(row["id"]))
            for row in self._connection.execute(query).mappings()
        )

    def _progress(self, round_id: str) -> tuple[int, float | None]:
        newest = select(round_steps.c.step, round_steps.c.metrics).where(round_steps.c.round_id == round_id)
        row = self._connection.execute(newest.order_by(round_steps.c.step.desc()).limit(1)).first()
        return (0, None) if row is None else (row.step, row.metrics.get("eta_seconds"))
