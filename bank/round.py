"""Round: one training job, from claim to verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class RoundStatus(StrEnum):
    """States of a round; the last four are final."""

    QUEUED = "queued"
    RUNNING = "running"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"
    EMPTY = "empty"
    """Nothing to learn from: the bank snapshot was too small."""


@dataclass(frozen=True, slots=True)
class Round:
    """One row of the schedule."""

    id: str
    slot: str
    """Unique: the schedule slot ("2026-11-30T02:00") or "manual-<id>"; one candidate per slot."""
    status: RoundStatus
    created_at: datetime
    config: Mapping[str, Any] = field(default_factory=dict)
    """Overrides of the trainer's configuration, validated by the trainer before it starts."""
    parent: str = "base"
    """The incumbent when the round was claimed: what the candidate is compared with."""
    phase: str = "queued"
    attempts: int = 0
    fence: int = 0
    """Fencing token: grows with every claim, checked at every write of the worker."""
    lease_until: datetime | None = None
    snapshot: Mapping[str, Any] = field(default_factory=dict)
    candidate: str | None = None
    error: str | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RoundStep:
    """What one training step measured; one row each, unique on (round, step)."""

    round_id: str
    step: int
    rollouts: int
    """Rollouts used so far in this round."""
    metrics: Mapping[str, float]
    """reward, success, kl, margin, beta, grad norms, tokens per second, eta seconds."""
    created_at: datetime
