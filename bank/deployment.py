"""Deployment: the one pointer that says which version answers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Deployment:
    """One generation of the pointer; the newest row is the truth, older rows are its history."""

    generation: int
    """Grows by one with each change; compare-and-set on it."""
    current: str
    previous: str | None
    actor: str
    reason: str
    changed_at: datetime
