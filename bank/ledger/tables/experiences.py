"""Experiences: the bank's source of truth and, at the same time, the outbox of the index."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Table

from bank.ledger.columns import ExactText, Fraction, Moment, Name, serial
from bank.ledger.tables.metadata import METADATA

experiences = Table(
    "experiences",
    METADATA,
    Column("number", serial(), primary_key=True, autoincrement=True),
    Column("id", Name(64), nullable=False, unique=True),
    Column("episode_id", Name(64), ForeignKey("episodes.id"), nullable=False, unique=True),
    Column("suite", ExactText(), nullable=False),
    Column("task_id", ExactText(), nullable=False),
    Column("task", ExactText(), nullable=False),
    Column("trace", ExactText(), nullable=False),
    Column("reward", Fraction(), nullable=False),
    Column("created_at", Moment(), nullable=False),
    Column("indexed_at", Moment()),
    Column("withdrawn_at", Moment()),
    Column("removed_at", Moment()),
    Index(None, "indexed_at", "withdrawn_at"),
    Index(None, "withdrawn_at", "removed_at"),
)
