"""Checkpoints: versions of the student and where they came from."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Table

from bank.checkpoint import CheckpointStatus
from bank.ledger.columns import Choice, ExactJson, ExactText, Moment, Name, serial
from bank.ledger.tables.metadata import METADATA

checkpoints = Table(
    "checkpoints",
    METADATA,
    Column("number", serial(), primary_key=True, autoincrement=True),
    Column("name", Name(128), nullable=False, unique=True),
    Column("digest", Name(128), nullable=False),
    Column("path", ExactText(), nullable=False),
    Column("status", Choice(CheckpointStatus), nullable=False, index=True),
    Column("created_at", Moment(), nullable=False),
    Column("round_id", Name(64), ForeignKey("rounds.id"), unique=True),
    Column("parent", Name(128)),
    Column("gate", ExactJson()),
    Column("lineage", ExactJson(), nullable=False),
    Column("reason", ExactText()),
)
