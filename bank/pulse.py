"""Pulse: the latest sign that somebody takes work from a queue."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Pulse:
    """One worker's last task."""

    queue: str
    worker: str
    """Host and process, for people."""
    at: datetime
