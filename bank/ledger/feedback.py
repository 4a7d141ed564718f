"""Feedbacks: verdicts on episodes, idempotent and retractable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, bindparam, select, update
from sqlalchemy.exc import IntegrityError

from bank.feedback import Feedback
from bank.ledger.errors import IdempotencyConflict, NotFound, SlotTaken
from bank.ledger.many import insert_rows
from bank.ledger.outcome import Outcome
from bank.ledger.tables.episodes import episodes
from bank.ledger.tables.feedback import feedback

# Built once: at thousands a second, composing a statement costs more than running it.
EPISODE = select(episodes.c.id).where(episodes.c.id == bindparam("episode_id"))
# No list of pairs: SQLite reads the whole table for one.
SAME_KEYS = select(feedback).where(
    feedback.c.rater.in_(bindparam("raters", expanding=True)),
    feedback.c.idempotency_key.in_(bindparam("keys", expanding=True)),
)
COLUMNS = [field.name for field in fields(Feedback)]

Key = tuple[str, ...]
"""(rater, idempotency key), or what no two verdicts share for one without."""


class Feedbacks:
    """Repository of feedback."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, verdict: Feedback) -> Feedback:
        """Store a verdict, or return the one that the same rater sent under the same idempotency key.

        Raises `IdempotencyConflict` when that one says something else, `NotFound` without its episode.
        """
        if self._connection.execute(EPISODE, {"episode_id": verdict.episode_id}).first() is None:
            raise NotFound(f"there is no episode {verdict.episode_id}")
        stored: Feedback = self.add_all([verdict])[0].result()
        return stored

    def add_all(self, verdicts: Sequence[Feedback]) -> list[Outcome]:
        """As `add` for each in turn, with two statements in all, for episodes that are known to be there.

        A conflict is that verdict's outcome. Raises `SlotTaken` for a used id, and `InvalidRecord`; the transaction has to end then.
        """
        first = self._sent_before(verdicts)
        outcomes, fresh = list[Outcome](), list[Feedback]()
        for verdict in verdicts:
            stored = first.setdefault(_key(verdict), verdict)
            outcomes.append(_answer(verdict, stored))
            if stored is verdict:
                fresh.append(verdict)
        try:
            insert_rows(self._connection, feedback, [_values(verdict) for verdict in fresh])
        except IntegrityError as error:
            raise SlotTaken(
                f"there is a feedback with an id of {', '.join(one.id for one in fresh)} already"
            ) from error
        return outcomes

    def get(self, feedback_id: str) -> Feedback | None:
        """One verdict."""
        return self._first(select(feedback).where(feedback.c.id == feedback_id))

    def of_episode(self, episode_id: str) -> tuple[Feedback, ...]:
        """All verdicts on an episode, oldest first, the retracted ones included."""
        query = select(feedback).where(feedback.c.episode_id == episode_id).order_by(feedback.c.number)
        return tuple(_feedback(row) for row in self._connection.execute(query).mappings())

    def retract(self, feedback_id: str, at: datetime) -> Feedback:
        """Take a verdict back; it stays readable and keeps its first time of retraction. Raises `NotFound`."""
        mine = (feedback.c.id == feedback_id) & feedback.c.retracted_at.is_(None)
        self._connection.execute(update(feedback).where(mine).values(retracted_at=at))
        found = self.get(feedback_id)
        if found is None:
            raise NotFound(f"there is no feedback {feedback_id}")
        return found

    def _sent_before(self, verdicts: Sequence[Feedback]) -> dict[Key, Feedback]:
        """Stored ones by key; among them may be pairs of one verdict's rater and another's key."""
        named = [verdict for verdict in verdicts if verdict.idempotency_key is not None]
        if not named:
            return {}
        raters, keys = {verdict.rater for verdict in named}, {verdict.idempotency_key for verdict in named}
        rows = self._connection.execute(SAME_KEYS, {"raters": list(raters), "keys": list(keys)}).mappings()
        return {_key(stored): stored for stored in map(_feedback, rows)}

    def _first(self, query: Select[Any]) -> Feedback | None:
        row = self._connection.execute(query).mappings().first()
        return None if row is None else _feedback(row)


def _key(verdict: Feedback) -> Key:
    return (verdict.rater, verdict.idempotency_key) if verdict.idempotency_key is not None else (verdict.id,)


def _answer(verdict: Feedback, stored: Feedback) -> Outcome:
    if _body(stored) == _body(verdict):
        return Outcome(stored)
    used = f"key {verdict.idempotency_key!r} was used for another body ({stored.id})"
    return Outcome(error=IdempotencyConflict(used))


def _values(verdict: Feedback) -> dict[str, Any]:
    return {name: getattr(verdict, name) for name in COLUMNS}


def _body(verdict: Feedback) -> tuple[str, float, str, str]:
    return (verdict.episode_id, verdict.value, verdict.metric, verdict.comment)


def _feedback(row: RowMapping) -> Feedback:
    values = dict(row)
    del values["number"]
    return Feedback(**values)
