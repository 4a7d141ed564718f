"""API keys, by the hash of their secret."""

from __future__ import annotations

from sqlalchemy import Column, Table

from bank.api_key import KeyRole
from bank.ledger.columns import Choice, ExactText, Moment, Name, serial
from bank.ledger.tables.metadata import METADATA

api_keys = Table(
    "api_keys",
    METADATA,
    Column("number", serial(), primary_key=True, autoincrement=True),
    Column("id", Name(64), nullable=False, unique=True),
    Column("role", Choice(KeyRole), nullable=False),
    Column("hash", Name(64), nullable=False, unique=True),
    Column("label", ExactText(), nullable=False),
    Column("created_at", Moment(), nullable=False),
    Column("revoked_at", Moment()),
)
