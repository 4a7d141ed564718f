"""FeedbackDesk: stores verdicts, and lets trusted ones make or unmake an experience in the same transaction."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from bank.api_key import KeyRole
from bank.feedback import Feedback
from bank.ids import new_id
from bank.ledger.errors import NotFound
from bank.ledger.ledger import Books
from bank.remember import remember
from service.auth import Caller
from service.books import BooksAsync
from service.errors import ServiceError
from service.feedback.schemas import FeedbackRequest
from service.telemetry import Telemetry

SUCCESS = "success"
"""The only metric that says whether a run was a success."""


@dataclass(frozen=True, slots=True)
class Trust:
    """Whose word counts, and from which value on."""

    least_role: KeyRole
    success_threshold: float

    def covers(self, caller: Caller) -> bool:
        """Whether this caller's verdicts may create experiences."""
        return caller.is_operator or self.least_role is KeyRole.USER


class FeedbackDesk:
    """The rules of feedback."""

    def __init__(self, books: BooksAsync, telemetry: Telemetry, trust: Trust) -> None:
        self._books = books
        self._telemetry = telemetry
        self._trust = trust

    async def give(self, body: FeedbackRequest, caller: Caller) -> Feedback:
        """The stored row. Raises `ServiceError` 404 and `IdempotencyConflict`."""
        sent = Feedback(
            id=new_id("fb"),
            episode_id=body.episode_id,
            value=body.verdict,
            metric=body.metric,
            rater=caller.id,
            trusted=self._trust.covers(caller),
            comment=body.comment,
            created_at=datetime.now(UTC),
            idempotency_key=body.idempotency_key,
        )
        stored = await self._books.write(lambda books: self._store(books, sent, caller))
        if stored.id == sent.id:
            self._telemetry.count_feedback(SUCCESS if body.metric == SUCCESS else "other")
        return stored

    async def retract(self, feedback_id: str, caller: Caller) -> Feedback:
        """The retracted row; again gives the same row. Raises `ServiceError` 404."""
        return await self._books.write(lambda books: self._withdraw(books, feedback_id, caller))

    def _store(self, books: Books, sent: Feedback, caller: Caller) -> Feedback:
        if not self._sees(books, sent.episode_id, caller):
            raise ServiceError(404, "unknown_episode", "there is no such episode")
        stored = books.feedback.add(sent)
        if stored.id == sent.id and self._vouches(stored):
            episode = books.episodes.get(sent.episode_id)
            if episode is not None:
                remember(books, episode, stored.value, self._trust.success_threshold, stored.created_at)
        return stored

    def _sees(self, books: Books, episode_id: str, caller: Caller) -> bool:
        try:
            return caller.may_see(books.episodes.owner(episode_id))
        except NotFound:
            return False

    def _withdraw(self, books: Books, feedback_id: str, caller: Caller) -> Feedback:
        found = books.feedback.get(feedback_id)
        if found is None or not caller.may_see(found.rater):
            raise ServiceError(404, "unknown_feedback", "there is no such feedback")
        now = datetime.now(UTC)
        retracted = books.feedback.retract(feedback_id, now)
        if self._vouches(found) and not self._stands_without(books, found):
            books.experiences.withdraw(found.episode_id, now)
        books.audit.add(caller.id, "feedback.retracted", feedback_id, {"episode": found.episode_id}, now)
        return retracted

    def _stands_without(self, books: Books, taken_back: Feedback) -> bool:
        """Whether the verifier, or somebody else who is trusted, still calls the episode a success."""
        episode = books.episodes.get(taken_back.episode_id)
        verified = episode is not None and (episode.reward or 0.0) >= self._trust.success_threshold
        others = books.feedback.of_episode(taken_back.episode_id)
        return verified or any(self._vouches(row) for row in others if row.id != taken_back.id)

    def _vouches(self, row: Feedback) -> bool:
        counts = row.trusted and row.metric == SUCCESS and row.retracted_at is None
        return counts and row.value >= self._trust.success_threshold
