"""Rounds and the measurements of their steps."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Integer, Table

from bank.ledger.columns import Choice, ExactJson, ExactText, Moment, Name, serial
from bank.ledger.tables.metadata import METADATA
from bank.round import RoundStatus

rounds = Table(
    "rounds",
    METADATA,
    Column("number", serial(), primary_key=True, autoincrement=True),
    Column("id", Name(64), nullable=False, unique=True),
    Column("slot", Name(128), nullable=False, unique=True),
    Column("status", Choice(RoundStatus), nullable=False),
    Column("created_at", Moment(), nullable=False),
    Column("config", ExactJson(), nullable=False),
    Column("parent", ExactText(), nullable=False),
    Column("phase", ExactText(), nullable=False),
    Column("attempts", Integer(), nullable=False),
    Column("fence", Integer(), nullable=False),
    Column("lease_until", Moment()),
    Column("snapshot", ExactJson(), nullable=False),
    Column("candidate", ExactText()),
    Column("error", ExactText()),
    Column("finished_at", Moment()),
    Index(None, "status", "number"),
)

round_steps = Table(
    "round_steps",
    METADATA,
    Column("round_id", Name(64), ForeignKey("rounds.id", ondelete="CASCADE"), primary_key=True),
    Column("step", Integer(), primary_key=True, autoincrement=False),
    Column("rollouts", Integer(), nullable=False),
    Column("metrics", ExactJson(), nullable=False),
    Column("created_at", Moment(), nullable=False),
)
