"""The audit log."""

from __future__ import annotations

from sqlalchemy import Column, Table

from bank.ledger.columns import ExactJson, ExactText, Moment, serial
from bank.ledger.tables.metadata import METADATA

audit = Table(
    "audit",
    METADATA,
    Column("id", serial(), primary_key=True, autoincrement=True),
    Column("at", Moment(), nullable=False),
    Column("actor", ExactText(), nullable=False),
    Column("action", ExactText(), nullable=False),
    Column("subject", ExactText(), nullable=False),
    Column("detail", ExactJson(), nullable=False),
)
