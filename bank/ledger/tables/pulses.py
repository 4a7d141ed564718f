"""When each worker last took a task."""

from __future__ import annotations

from sqlalchemy import Column, Table

from bank.ledger.columns import Moment, Name
from bank.ledger.tables.metadata import METADATA

pulses = Table(
    "pulses",
    METADATA,
    Column("queue", Name(64), primary_key=True),
    Column("worker", Name(128), primary_key=True),
    Column("at", Moment(), nullable=False),
)
