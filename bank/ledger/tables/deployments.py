"""Deployments: every place the pointer has been; the newest row is where it is."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Integer, Table

from bank.ledger.columns import ExactText, Moment, Name
from bank.ledger.tables.metadata import METADATA

deployments = Table(
    "deployments",
    METADATA,
    Column("generation", Integer(), primary_key=True, autoincrement=False),
    Column("current", Name(128), ForeignKey("checkpoints.name"), nullable=False),
    Column("previous", Name(128)),
    Column("actor", ExactText(), nullable=False),
    Column("reason", ExactText(), nullable=False),
    Column("changed_at", Moment(), nullable=False),
)
