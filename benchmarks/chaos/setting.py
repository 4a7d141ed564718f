"""Setting: what every drill is given."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Setting:
    """One drill on one database."""

    folder: Path
    """Empty, for this drill alone."""
    ledger_url: str
    database: str
    """Name for the table: sqlite or postgres."""
    seconds: float
    """How long load is kept up."""
    senders: int
    """Requests in flight."""
    rng: random.Random
    """The only source of chance."""
