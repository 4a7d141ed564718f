"""Rounds: the training jobs, claimed with a lease and guarded by a fencing token.

A claim bumps the fence; every later write of the worker names the fence it was given. A worker that was thought dead
and wakes up holds an old fence and is refused, so two workers never write into the same round.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, delete, insert, or_, select, update

from bank.ledger.errors import NotFound, SlotTaken, StaleFence
from bank.ledger.guard import try_insert
from bank.ledger.tables.rounds import round_steps, rounds
from bank.round import Round, RoundStatus, RoundStep

EXHAUSTED = "attempts exhausted"
HELD = (RoundStatus.RUNNING, RoundStatus.CANCELLING)
"""States in which a worker may write."""


class Rounds:
    """Repository of rounds and their steps."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, new: Round) -> Round:
        """Store a round. Raises `SlotTaken` when its schedule slot (or its id) has one already."""
        values = {name: getattr(new, name) for name in rounds.c.keys() if name != "number"}  # noqa: SIM118
        if not try_insert(self._connection, insert(rounds).values(values)):
            raise SlotTaken(f"there is a round for slot {new.slot} already")
        return new

    def get(self, round_id: str) -> Round | None:
        """One round."""
        row = self._row(round_id)
        return None if row is None else _round(row)

    def latest(self, limit: int) -> tuple[Round, ...]:
        """Newest first."""
        query = select(rounds).order_by(rounds.c.number.desc()).limit(limit)
        return tuple(_round(row) for row in self._connection.execute(query).mappings())

    def claim(self, now: datetime, lease_seconds: float, max_attempts: int) -> Round | None:
        """Take the oldest round that waits: a queued one, or a running one whose lease ran out.

        None when nothing waits. Abandoned rounds that `give_up` would end are ended first.
        """
        self.give_up(now, max_attempts)
        row = self._first(or_(rounds.c.status == RoundStatus.QUEUED, _abandoned(now)))
        if row is None:
            return None
        lease = now + timedelta(seconds=lease_seconds)
        claimed = {"fence": row["fence"] + 1, "attempts": row["attempts"] + 1, "lease_until": lease}
        return self._set(row["id"], status=RoundStatus.RUNNING, **claimed)

    def give_up(self, now: datetime, max_attempts: int) -> tuple[Round, ...]:
        """End the abandoned rounds that nobody shall claim again, and return them.

        As cancelled when somebody asked for it, as failed when they had `max_attempts` claims; the error of the last
        attempt, if it left one, is in theirs.
        """
        ended = []
        while (row := self._first(and_(_abandoned(now), _hopeless(max_attempts)))) is not None:
            over = {"finished_at": now, "lease_until": None}
            if row["status"] is RoundStatus.CANCELLING:
                ended.append(self._set(row["id"], status=RoundStatus.CANCELLED, **over))
            else:
                error = f"{EXHAUSTED}: {row['error']}" if row["error"] else EXHAUSTED
                ended.append(self._set(row["id"], status=RoundStatus.FAILED, error=error, **over))
        return tuple(ended)

    def give_back(
        self, round_id: str, fence: int, until: datetime, *, error: str | None = None, counted: bool = True
    ) -> Round:
        """End an attempt: from `until` on anybody may claim the round. Raises `StaleFence`.

        An attempt that ended because its process was asked to end is not `counted`.
        """
        row = self._held(round_id, fence)
        attempts = row["attempts"] if counted else max(0, row["attempts"] - 1)
        return self._set(round_id, lease_until=until, attempts=attempts, error=error)

    def renew(self, round_id: str, fence: int, until: datetime) -> None:
        """Prolong the lease. Raises `StaleFence`."""
        self._held(round_id, fence)
        self._set(round_id, lease_until=until)

    def record(
        self,
        round_id: str,
        fence: int,
        *,
        phase: str | None = None,
        snapshot: dict[str, Any] | None = None,
        parent: str | None = None,
    ) -> None:
        """Write down how far the round is; None leaves a field as it was. Raises `StaleFence`."""
        self._held(round_id, fence)
        values = {"phase": phase, "snapshot": snapshot, "parent": parent}
        self._set(round_id, **{name: value for name, value in values.items() if value is not None})

    def add_step(self, step: RoundStep, fence: int) -> None:
        """Store what a step measured, in place of an earlier try of the same step. Raises `StaleFence`."""
        self._held(step.round_id, fence)
        same = and_(round_steps.c.round_id == step.round_id, round_steps.c.step == step.step)
        self._connection.execute(delete(round_steps).where(same))
        values = {name: getattr(step, name) for name in round_steps.c.keys()}  # noqa: SIM118
        self._connection.execute(insert(round_steps).values(values))

    def steps(self, round_id: str) -> tuple[RoundStep, ...]:
        """All steps in order."""
        query = select(round_steps).where(round_steps.c.round_id == round_id).order_by(round_steps.c.step)
        return tuple(RoundStep(**row) for row in self._connection.execute(query).mappings())

    def finish(
        self,
        round_id: str,
        fence: int,
        status: RoundStatus,
        at: datetime,
        *,
        candidate: str | None = None,
        error: str | None = None,
    ) -> Round:
        """End the round with a final status. Raises `StaleFence`, also when it has ended before."""
        self._held(round_id, fence)
        ending = {"candidate": candidate, "error": error, "finished_at": at, "lease_until": None}
        return self._set(round_id, status=status, **ending)

    def request_cancel(self, round_id: str, at: datetime | None = None) -> Round:
        """Cancel a queued round at once, ask the worker of a running one to stop; a finished one stays as it is.

        Raises `NotFound`.
        """
        row = self._row(round_id, lock=True)
        if row is None:
            raise NotFound(f"there is no round {round_id}")
        if row["status"] is RoundStatus.QUEUED:
            return self._set(round_id, status=RoundStatus.CANCELLED, finished_at=at or datetime.now(UTC))
        if row["status"] is RoundStatus.RUNNING:
            return self._set(round_id, status=RoundStatus.CANCELLING)
        return _round(row)

    def is_cancelling(self, round_id: str) -> bool:
        """Whether somebody asked the round to stop. Raises `NotFound`."""
        row = self._row(round_id)
        if row is None:
            raise NotFound(f"there is no round {round_id}")
        return row["status"] in (RoundStatus.CANCELLING, RoundStatus.CANCELLED)

    def _first(self, waiting: ColumnElement[bool]) -> RowMapping | None:
        query = select(rounds).where(waiting).order_by(rounds.c.number).limit(1)
        return self._connection.execute(query.with_for_update(skip_locked=True)).mappings().first()

    def _held(self, round_id: str, fence: int) -> RowMapping:
        row = self._row(round_id, lock=True)
        if row is None:
            raise NotFound(f"there is no round {round_id}")
        if row["fence"] != fence or row["status"] not in HELD:
            raise StaleFence(f"round {round_id} is {row['status'].value} under fence {row['fence']}, not {fence}")
        return row

    def _row(self, round_id: str, *, lock: bool = False) -> RowMapping | None:
        query = select(rounds).where(rounds.c.id == round_id)
        return self._connection.execute(query.with_for_update() if lock else query).mappings().first()

    def _set(self, round_id: str, **values: Any) -> Round:
        if values:
            self._connection.execute(update(rounds).where(rounds.c.id == round_id).values(**values))
        return _round(self._connection.execute(select(rounds).where(rounds.c.id == round_id)).mappings().one())


def _abandoned(now: datetime) -> ColumnElement[bool]:
    return and_(rounds.c.status.in_(HELD), rounds.c.lease_until < now)


def _hopeless(max_attempts: int) -> ColumnElement[bool]:
    return or_(rounds.c.status == RoundStatus.CANCELLING, rounds.c.attempts >= max_attempts)


def _round(row: RowMapping) -> Round:
    values = dict(row)
    del values["number"]
    return Round(**values)
