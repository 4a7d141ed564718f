"""The audit log over the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from bank.audit import AuditEntry
from service.wire import ReplyBody


class AuditLine(ReplyBody):
    """Who did what, when and why."""

    id: int
    at: datetime
    actor: str
    action: str
    subject: str
    detail: dict[str, Any]

    @classmethod
    def of(cls, row: AuditEntry) -> AuditLine:
        """The row."""
        fields = {name: getattr(row, name) for name in cls.model_fields}
        return cls(**{**fields, "detail": dict(row.detail)})


class AuditLog(ReplyBody):
    """Newest first."""

    audit: list[AuditLine]
