"""Feedback on episodes."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, ForeignKey, Table, UniqueConstraint

from bank.ledger.columns import ExactText, Fraction, Moment, Name, serial
from bank.ledger.tables.metadata import METADATA

feedback = Table(
    "feedback",
    METADATA,
    Column("number", serial(), primary_key=True, autoincrement=True),
    Column("id", Name(64), nullable=False, unique=True),
    Column("episode_id", Name(64), ForeignKey("episodes.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("value", Fraction(), nullable=False),
    Column("metric", ExactText(), nullable=False),
    Column("rater", Name(64), nullable=False),
    Column("trusted", Boolean(), nullable=False),
    Column("comment", ExactText(), nullable=False),
    Column("created_at", Moment(), nullable=False),
    Column("idempotency_key", ExactText()),
    Column("retracted_at", Moment()),
    UniqueConstraint("rater", "idempotency_key"),
)
