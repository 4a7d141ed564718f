"""Where each conversation stands, for the request that goes on with it; and tool results too long for a prompt."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Table

from bank.ledger.columns import ExactText, Name
from bank.ledger.tables.metadata import METADATA

conversations = Table(
    "conversations",
    METADATA,
    Column("episode_id", Name(64), ForeignKey("episodes.id", ondelete="CASCADE"), primary_key=True),
    Column("owner", Name(64), nullable=False),
    Column("fingerprint", Name(64), nullable=False),
    Index(None, "owner", "fingerprint"),
)

tool_results = Table(
    "tool_results",
    METADATA,
    Column("episode_id", Name(64), ForeignKey("episodes.id", ondelete="CASCADE"), primary_key=True),
    Column("call_id", Name(64), primary_key=True),
    Column("text", ExactText(), nullable=False),
)
