"""Feedbacks: verdicts on episodes, idempotent and retractable."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, bindparam, insert, select, update

from bank.feedback import Feedback
from bank.ledger.errors import IdempotencyConflict, NotFound, SlotTaken
from bank.ledger.guard import try_insert
from bank.ledger.tables.episodes import episodes
from bank.ledger.tables.feedback import feedback

# Built once: at thousands a second, composing a statement costs more than running it.
EPISODE = select(episodes.c.id).where(episodes.c.id == bindparam("episode_id"))
SAME_KEY = select(feedback).where(
    feedback.c.rater == bindparam("rater"), feedback.c.idempotency_key == bindparam("idempotency_key")
)
INSERT = insert(feedback)


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
        return self._sent_before(verdict) or self._insert(verdict)

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

    def _insert(self, verdict: Feedback) -> Feedback:
        if try_insert(self._connection, INSERT, asdict(verdict)):
            return verdict
        stored = self._sent_before(verdict)
        if stored is None:
            raise SlotTaken(f"there is a feedback {verdict.id} already")
        return stored

    def _sent_before(self, verdict: Feedback) -> Feedback | None:
        if verdict.idempotency_key is None:
            return None
        same_key = {"rater": verdict.rater, "idempotency_key": verdict.idempotency_key}
        row = self._connection.execute(SAME_KEY, same_key).mappings().first()
        stored = None if row is None else _feedback(row)
        if stored is not None and _body(stored) != _body(verdict):
            raise IdempotencyConflict(f"key {verdict.idempotency_key!r} was used for another body ({stored.id})")
        return stored

    def _first(self, query: Select[Any]) -> Feedback | None:
        row = self._connection.execute(query).mappings().first()
        return None if row is None else _feedback(row)


def _body(verdict: Feedback) -> tuple[str, float, str, str]:
    return (verdict.episode_id, verdict.value, verdict.metric, verdict.comment)


def _feedback(row: RowMapping) -> Feedback:
    values = dict(row)
    del values["number"]
    return Feedback(**values)
