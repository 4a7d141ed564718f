"""Experiences: what the bank holds, and the outbox that tells the index about it.

A row is *pending* until the relay has indexed it; a withdrawn row is *unapplied* until the relay has removed it from
the index. Both marks are set after the index has answered, so a relay may die anywhere and be run again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, insert, select, update

from bank.episode import Split
from bank.experience import Experience
from bank.ledger.errors import HeldOutRefused, NotFound
from bank.ledger.guard import try_insert
from bank.ledger.tables.episodes import episodes
from bank.ledger.tables.experiences import experiences

CHUNK = 500
"""Ids in one statement; databases bound the number of parameters."""
COLUMNS = [experiences.c[field.name] for field in fields(Experience)]
LIVE = experiences.c.withdrawn_at.is_(None)
PENDING = and_(LIVE, experiences.c.indexed_at.is_(None))
INDEXED = and_(LIVE, experiences.c.indexed_at.is_not(None))
UNAPPLIED = and_(experiences.c.withdrawn_at.is_not(None), experiences.c.removed_at.is_(None))


class Experiences:
    """Repository of experiences."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, experience: Experience) -> bool:
        """Store what a success left behind; False when its episode has an experience already, withdrawn or not.

        Raises `HeldOutRefused` for an evaluation task, `NotFound` when the ledger does not hold the episode.
        """
        split = self._connection.execute(
            select(episodes.c.split).where(episodes.c.id == experience.episode_id)
        ).scalar_one_or_none()
        if split is None:
            raise NotFound(f"there is no episode {experience.episode_id}")
        if split is Split.HELD_OUT:
            raise HeldOutRefused(f"{experience.task_id} is held out for evaluation and can't enter the bank")
        return try_insert(self._connection, insert(experiences).values(asdict(experience)))

    def pending(self, limit: int) -> tuple[Experience, ...]:
        """Oldest ones that the index has not got yet."""
        return self._select(PENDING, limit)

    def indexed(self) -> tuple[Experience, ...]:
        """All that the index holds by the ledger's account, oldest first."""
        return self._select(INDEXED, None)

    def indexed_ids(self) -> frozenset[str]:
        """Ids of all that the index holds by the ledger's account."""
        return self._ids(INDEXED)

    def live_ids(self) -> frozenset[str]:
        """Ids of all that are not withdrawn, indexed or not."""
        return self._ids(LIVE)

    def mark_indexed(self, ids: Sequence[str], at: datetime) -> None:
        """The index holds these now; one that was withdrawn in between becomes unapplied again."""
        self._mark(ids, experiences.c.id.is_not(None), indexed_at=at, removed_at=None)

    def mark_pending(self, ids: Sequence[str]) -> None:
        """The index has lost these: they have to be indexed again."""
        self._mark(ids, LIVE, indexed_at=None)

    def get_many(self, ids: Sequence[str]) -> tuple[Experience, ...]:
        """These experiences in this order, withdrawn ones included. Raises `NotFound`."""
        found: dict[str, Experience] = {}
        for chunk in _chunks(ids):
            for experience in self._select(experiences.c.id.in_(chunk), None):
                found[experience.id] = experience
        missing = [one for one in ids if one not in found]
        if missing:
            raise NotFound(f"there is no experience {', '.join(missing)}")
        return tuple(found[one] for one in ids)

    def held_out(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Those of the ids whose episode belongs to a held-out task: none, unless somebody went around `add`."""
        joined = experiences.join(episodes, experiences.c.episode_id == episodes.c.id)
        query = select(experiences.c.id).select_from(joined).where(episodes.c.split == Split.HELD_OUT)
        refused = set(self._connection.execute(query).scalars())
        return tuple(one for one in ids if one in refused)

    def count(self) -> int:
        """Experiences that are not withdrawn."""
        return self._count(LIVE)

    def indexed_count(self) -> int:
        """Experiences that can be retrieved: indexed and not withdrawn."""
        return self._count(INDEXED)

    def withdraw(self, episode_id: str, at: datetime) -> bool:
        """Take an episode's experience out of the bank for good; False when there is none to take out."""
        mine = and_(LIVE, experiences.c.episode_id == episode_id)
        return self._connection.execute(update(experiences).where(mine).values(withdrawn_at=at)).rowcount > 0

    def withdrawn_unapplied(self, limit: int) -> tuple[str, ...]:
        """Ids of withdrawn experiences that the index may still hold, oldest first."""
        query = select(experiences.c.id).where(UNAPPLIED).order_by(experiences.c.number).limit(limit)
        return tuple(self._connection.execute(query).scalars())

    def mark_removed(self, ids: Sequence[str], at: datetime) -> None:
        """The index does not hold these any more."""
        self._mark(ids, UNAPPLIED, removed_at=at)

    def _ids(self, which: ColumnElement[bool]) -> frozenset[str]:
        return frozenset(self._connection.execute(select(experiences.c.id).where(which)).scalars())

    def _select(self, which: ColumnElement[bool], limit: int | None) -> tuple[Experience, ...]:
        query = select(*COLUMNS).where(which).order_by(experiences.c.number).limit(limit)
        return tuple(Experience(**row) for row in self._connection.execute(query).mappings())

    def _count(self, which: ColumnElement[bool]) -> int:
        return int(self._connection.execute(select(func.count()).select_from(experiences).where(which)).scalar_one())

    def _mark(self, ids: Sequence[str], which: ColumnElement[bool], **marks: Any) -> None:
        for chunk in _chunks(ids):
            self._connection.execute(update(experiences).where(which, experiences.c.id.in_(chunk)).values(**marks))


def _chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), CHUNK):
        yield ids[start : start + CHUNK]
