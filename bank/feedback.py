"""Feedback: somebody's verdict on an episode, durable and retractable."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Feedback:
    """One verdict."""

    id: str
    episode_id: str
    value: float
    """In [0, 1]; thumbs are 1.0 and 0.0."""
    metric: str
    rater: str
    """Id of the API key that sent it."""
    trusted: bool
    """Whether the rater's role may create experiences."""
    comment: str
    created_at: datetime
    idempotency_key: str | None = None
    retracted_at: datetime | None = None
