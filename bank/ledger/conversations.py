"""Conversations: which episode a request goes on with; and the full text of tool results that were cut for the prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, insert, select, update

from bank.ledger.guard import try_insert
from bank.ledger.many import insert_rows
from bank.ledger.tables.conversations import conversations, tool_results
from bank.ledger.tables.episodes import episodes

PLACE = ("episode_id", "owner", "fingerprint")


class Conversations:
    """Repository of places in conversations."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def place(self, episode_id: str, owner: str, fingerprint: str) -> None:
        """Remember what the conversation of an episode looks like now to its owner."""
        row = {"episode_id": episode_id, "owner": owner, "fingerprint": fingerprint}
        if not try_insert(self._connection, insert(conversations).values(row)):
            mine = conversations.c.episode_id == episode_id
            self._connection.execute(update(conversations).where(mine).values(fingerprint=fingerprint))

    def begin(self, places: Sequence[tuple[str, str, str]]) -> None:
        """Remember new conversations: (episode, owner, fingerprint) of each."""
        insert_rows(self._connection, conversations, [dict(zip(PLACE, place, strict=True)) for place in places])

    def find(self, owner: str, fingerprint: str) -> str | None:
        """The newest episode of this owner that looks so."""
        seen = (conversations.c.owner == owner) & (conversations.c.fingerprint == fingerprint)
        query = select(conversations.c.episode_id).join(episodes).where(seen).order_by(episodes.c.number.desc())
        found: str | None = self._connection.execute(query.limit(1)).scalar()
        return found

    def is_at(self, episode_id: str, fingerprint: str) -> bool:
        """Whether this episode looks so."""
        same = (conversations.c.episode_id == episode_id) & (conversations.c.fingerprint == fingerprint)
        return self._connection.execute(select(conversations.c.episode_id).where(same)).first() is not None

    def keep_results(self, episode_id: str, results: Mapping[str, str]) -> None:
        """Keep whole tool results, by call id."""
        rows = [{"episode_id": episode_id, "call_id": call, "text": text} for call, text in results.items()]
        if rows:
            self._connection.execute(insert(tool_results), rows)

    def result(self, episode_id: str, call_id: str) -> str | None:
        """The whole result of one call; None when nothing was cut."""
        wanted = (tool_results.c.episode_id == episode_id) & (tool_results.c.call_id == call_id)
        found: str | None = self._connection.execute(select(tool_results.c.text).where(wanted)).scalar()
        return found
