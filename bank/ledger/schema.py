"""All tables in one registry: what a migrated database must look like."""

from __future__ import annotations

from bank.ledger.tables import (
    audit,
    checkpoints,
    conversations,
    deployments,
    episodes,
    experiences,
    feedback,
    keys,
    pulses,
    rounds,
)
from bank.ledger.tables.metadata import METADATA

GROUPS = (episodes, conversations, feedback, experiences, rounds, checkpoints, deployments, audit, keys, pulses)
"""Importing these modules is what fills `METADATA`."""

__all__ = ["GROUPS", "METADATA"]
