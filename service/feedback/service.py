"""FeedbackDesk: stores verdicts, and lets trusted ones make or unmake an experience in the same transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from bank.api_key import KeyRole
from bank.episode import Episode
from bank.feedback import Feedback
from bank.ids import new_id
from bank.ledger.ledger import Books
from bank.ledger.outcome import Outcome
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


@dataclass(frozen=True, slots=True)
class Sent:
    """A verdict on its way to the ledger."""

    row: Feedback
    caller: Caller


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
        stored: Feedback = await self._books.write_part(self._store, Sent(sent, caller))
        if stored.id == sent.id:
            self._telemetry.count_feedback(SUCCESS if body.metric == SUCCESS else "other")
        return stored

    async def retract(self, feedback_id: str, caller: Caller) -> Feedback:
        """The retracted row; again gives the same row. Raises `ServiceError` 404."""
        return await self._books.write(lambda books: self._withdraw(books, feedback_id, caller))

    def settle(self, books: Books, episode: Episode) -> None:
        """A conversation that was praised while it waited for its client has ended: now it may become an experience."""
        praise = [row for row in books.feedback.of_episode(episode.id) if self._vouches(row)]
        if praise:
            first = praise[0]
            remember(books, episode, first.value, self._trust.success_threshold, datetime.now(UTC))

    def _store(self, books: Books, sent: Sequence[Sent]) -> list[Outcome]:
        owners = books.episodes.owners({one.row.episode_id for one in sent})
        rows = [
            one.row for one in sent if one.row.episode_id in owners and one.caller.may_see(owners[one.row.episode_id])
        ]
        outcomes = dict(zip([row.id for row in rows], books.feedback.add_all(rows), strict=True))
        self._remember(books, [row for row in rows if outcomes[row.id].value is row and self._vouches(row)])
        return [outcomes.get(one.row.id) or _unknown_episode() for one in sent]

    def _remember(self, books: Books, praise: Iterable[Feedback]) -> None:
        """What an episode leaves behind, at its first praise."""
        first = {row.episode_id: row for row in reversed([*praise])}
        for episode in books.episodes.get_many(first) if first else ():
            row = first[episode.id]
            remember(books, episode, row.value, self._trust.success_threshold, row.created_at)

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


def _unknown_episode() -> Outcome:
    return Outcome(error=ServiceError(404, "unknown_episode", "there is no such episode"))
