"""Checkpoint: one immutable version of the student and where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from bank.gate_report import GateReport

BASE = "base"
"""Name of the version without an adapter: explicit like every other, never a fallback."""


class CheckpointStatus(StrEnum):
    """What may be done with a checkpoint."""

    CANDIDATE = "candidate"
    """Published and judged; waits for a decision."""
    APPROVED = "approved"
    """The gate's policy wants it live; the service swaps it in."""
    LIVE = "live"
    RETIRED = "retired"
    REJECTED = "rejected"
    """Non-finite round, failed probe or an operator's no: can't be promoted."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One version."""

    name: str
    """`student-<round>-<sha12>`, or "base"."""
    digest: str
    """sha256 of the manifest (of the weights for the base)."""
    path: str
    """Absolute folder of the adapter (of the model for the base)."""
    status: CheckpointStatus
    created_at: datetime
    round_id: str | None = None
    parent: str | None = None
    gate: GateReport | None = None
    lineage: Mapping[str, Any] = field(default_factory=dict)
    """Base digest, configuration, experience ids of the snapshot, rollout episode counts."""
    reason: str | None = None
    """Why it was rejected."""
