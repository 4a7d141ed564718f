"""relay: carries the ledger's outbox into the index. May be killed at any point and run again.

The order is what makes it safe: the index first, with an answer that means durable, then the mark in the ledger. Dying
in between costs one repetition, and a repeated upsert or removal changes nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime

from bank.embedding.embedder import Embedder
from bank.experience import Experience
from bank.index.index import ExperienceIndex
from bank.ledger.ledger import Ledger

BATCH = 256


def relay(ledger: Ledger, index: ExperienceIndex, embedder: Embedder, limit: int = BATCH) -> int:
    """Index up to `limit` new experiences and remove up to `limit` withdrawn ones; returns how many it handled.

    Withdrawals are read last, so an experience that is withdrawn while it is being embedded leaves in the same call.
    """
    return _add(ledger, index, embedder, limit) + _remove(ledger, index, limit)


def rebuild(ledger: Ledger, index: ExperienceIndex, embedder: Embedder, *, everything: bool = False) -> int:
    """Make the index hold exactly what the ledger says; returns how many entries had to be repaired.

    For the start of a process that relays: after a lost folder, a restored backup, a server that was killed and
    brought deleted points back, or a change of embedder, which begins a new collection. Costs one listing of ids when
    there is nothing to repair. With `everything`, all is embedded anew. Other relays may be at work meanwhile.
    """
    held = index.ids()
    with ledger.write() as books:
        indexed = books.experiences.indexed_ids()
        books.experiences.mark_pending(sorted(indexed if everything else indexed - held))
    repaired = 0
    while handled := relay(ledger, index, embedder):
        repaired += handled
    with ledger.read() as books:
        foreign = sorted(held - books.experiences.live_ids())
    index.remove(foreign)
    return repaired + len(foreign)


def _add(ledger: Ledger, index: ExperienceIndex, embedder: Embedder, limit: int) -> int:
    with ledger.read() as books:
        pending = books.experiences.pending(limit)
    if pending:
        index.upsert(pending, embedder.embed_documents([_text(experience, embedder) for experience in pending]))
        with ledger.write() as books:
            books.experiences.mark_indexed([experience.id for experience in pending], datetime.now(UTC))
    return len(pending)


def _text(experience: Experience, embedder: Embedder) -> str:
    return experience.document if embedder.reads_trace else experience.task


def _remove(ledger: Ledger, index: ExperienceIndex, limit: int) -> int:
    with ledger.read() as books:
        withdrawn = books.experiences.withdrawn_unapplied(limit)
    if withdrawn:
        index.remove(withdrawn)
        with ledger.write() as books:
            books.experiences.mark_removed(withdrawn, datetime.now(UTC))
    return len(withdrawn)
