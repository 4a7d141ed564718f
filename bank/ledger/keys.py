"""Keys: who may ask, by the hash of the secret."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, RowMapping, bindparam, func, insert, select, update

from bank.api_key import ApiKey, KeyRole
from bank.ledger.errors import NotFound, SlotTaken
from bank.ledger.guard import try_insert
from bank.ledger.tables.keys import api_keys

VALID = api_keys.c.revoked_at.is_(None)
BY_HASH = select(api_keys).where(VALID, api_keys.c.hash == bindparam("hash"))
"""Built once: every request asks it."""


class Keys:
    """Repository of API keys."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, key: ApiKey) -> None:
        """Store a key. Raises `SlotTaken` for a used id or hash."""
        if not try_insert(self._connection, insert(api_keys).values(asdict(key))):
            raise SlotTaken(f"there is a key {key.id}, or one with the same hash, already")

    def by_hash(self, digest: str) -> ApiKey | None:
        """The valid key with this hash; None for an unknown or revoked one."""
        return _key(self._connection.execute(BY_HASH, {"hash": digest}).mappings().first())

    def get(self, key_id: str) -> ApiKey | None:
        """One key, revoked or not."""
        return self._first(api_keys.c.id == key_id)

    def count(self, role: KeyRole | None = None) -> int:
        """Number of valid keys, of one role or of all."""
        query = select(func.count()).select_from(api_keys).where(VALID)
        return int(
            self._connection.execute(query if role is None else query.where(api_keys.c.role == role)).scalar_one()
        )

    def revoke(self, key_id: str, at: datetime) -> None:
        """End a key's validity; the first time counts. Raises `NotFound`."""
        if self.get(key_id) is None:
            raise NotFound(f"there is no key {key_id}")
        self._connection.execute(update(api_keys).where(VALID, api_keys.c.id == key_id).values(revoked_at=at))

    def _first(self, which: ColumnElement[bool]) -> ApiKey | None:
        return _key(self._connection.execute(select(api_keys).where(which)).mappings().first())


def _key(row: RowMapping | None) -> ApiKey | None:
    if row is None:
        return None
    values = dict(row)
    del values["number"]
    return ApiKey(**values)
