"""The bank over the wire."""

from __future__ import annotations

from bank.ledger.ledger import Books
from service.wire import ReplyBody


class BankReply(ReplyBody):
    """Row counts."""

    episodes: int
    successes: int
    """Episodes whose verified reward reaches the threshold, held-out ones included."""
    experiences: int
    indexed: int
    """Experiences that the index holds: what a round can retrieve."""

    @classmethod
    def read(cls, books: Books, threshold: float) -> BankReply:
        """Counted in one transaction."""
        return cls(
            episodes=books.episodes.count(),
            successes=books.episodes.count(min_reward=threshold),
            experiences=books.experiences.count(),
            indexed=books.experiences.indexed_count(),
        )
