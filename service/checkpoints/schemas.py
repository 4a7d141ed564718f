"""Checkpoints over the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from bank.checkpoint import Checkpoint, CheckpointStatus
from service.wire import ReplyBody


class CheckpointReply(ReplyBody):
    """One version."""

    name: str
    digest: str
    status: CheckpointStatus
    created_at: datetime
    round_id: str | None
    parent: str | None
    path: str
    gate: dict[str, Any] | None
    """The gate's report: verdict, tasks, success rates, difference with interval, p-value."""
    lineage: dict[str, Any]
    reason: str | None

    @classmethod
    def of(cls, row: Checkpoint) -> CheckpointReply:
        """The row."""
        fields = {name: getattr(row, name) for name in cls.model_fields}
        gate = None if row.gate is None else row.gate.to_wire()
        return cls(**{**fields, "gate": gate, "lineage": dict(row.lineage)})


class CheckpointList(ReplyBody):
    """Newest first."""

    checkpoints: list[CheckpointReply]
