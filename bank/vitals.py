"""Vitals: what a person on duty wants to know of the ledger, in one look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from bank.pulse import Pulse


@dataclass(frozen=True, slots=True)
class RunningRound:
    """A round that some worker holds, or held."""

    id: str
    phase: str
    attempts: int
    lease_until: datetime | None
    """In the past: its worker is gone and nobody has taken over yet."""
    steps: int
    """Made so far."""
    eta_seconds: float | None
    """To its last step, as its latest one estimated."""


@dataclass(frozen=True, slots=True)
class Vitals:
    """One view of everything."""

    outbox: int
    """Experiences that the index still has to take in or to forget."""
    outbox_since: datetime | None
    """When the oldest of them was lived or withdrawn."""
    rounds: Mapping[str, int]
    """Count by status."""
    running: tuple[RunningRound, ...]
    pulses: tuple[Pulse, ...]
    """The last task taken from every queue."""
    changes: Mapping[str, int]
    """Audit lines by action, ever: flips, rejections, rounds given up."""
