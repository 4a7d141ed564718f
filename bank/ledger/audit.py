"""Audit: who did what, when and why; rows are added and never changed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, select

from bank.audit import AuditEntry
from bank.ledger.tables.audit import audit


class Audit:
    """Repository of the audit log."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, actor: str, action: str, subject: str, detail: Mapping[str, Any], at: datetime) -> None:
        """Write one line."""
        line = {"actor": actor, "action": action, "subject": subject, "detail": detail, "at": at}
        self._connection.execute(insert(audit).values(line))

    def latest(self, limit: int) -> tuple[AuditEntry, ...]:
        """Newest first."""
        query = select(audit).order_by(audit.c.id.desc()).limit(limit)
        return tuple(AuditEntry(**row) for row in self._connection.execute(query).mappings())
