"""Episodes and their turns."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Integer, Table

from bank.episode import Split, StopReason
from bank.ledger.columns import Choice, ExactJson, ExactText, Fraction, LogProbs, Moment, Name, TokenIds, serial
from bank.ledger.tables.metadata import METADATA

episodes = Table(
    "episodes",
    METADATA,
    Column("number", serial(), primary_key=True, autoincrement=True),
    Column("id", Name(64), nullable=False, unique=True),
    Column("created_at", Moment(), nullable=False),
    Column("task_id", ExactText(), nullable=False),
    Column("suite", ExactText(), nullable=False),
    Column("split", Choice(Split), nullable=False),
    Column("task", ExactText(), nullable=False),
    Column("policy", ExactText(), nullable=False, index=True),
    Column("digest", Name(128), nullable=False),
    Column("opening", ExactJson(), nullable=False),
    Column("stop_reason", Choice(StopReason), nullable=False),
    Column("reward", Fraction()),
    Column("fault", ExactText()),
    Column("owner", Name(64)),
    Index(None, "created_at", "number"),
)

turns = Table(
    "turns",
    METADATA,
    Column("episode_id", Name(64), ForeignKey("episodes.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer(), primary_key=True, autoincrement=False),
    Column("prompt_ids", TokenIds(), nullable=False),
    Column("sampled_ids", TokenIds(), nullable=False),
    Column("logprobs", LogProbs(), nullable=False),
    Column("reply", ExactJson(), nullable=False),
    Column("observations", ExactJson(), nullable=False),
)
