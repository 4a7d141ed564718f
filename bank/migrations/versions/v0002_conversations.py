"""Places in conversations, and whole tool results."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Two tables that go with their episode."""
    op.create_table(
        "conversations",
        sa.Column("episode_id", sa.String(length=64), nullable=False),
        sa.Column("owner", sa.String(length=64), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["episode_id"], ["episodes.id"], name="fk_conversations_episode_id_episodes", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("episode_id", name="pk_conversations"),
    )
    op.create_index("ix_conversations_owner_fingerprint", "conversations", ["owner", "fingerprint"])
    op.create_table(
        "tool_results",
        sa.Column("episode_id", sa.String(length=64), nullable=False),
        sa.Column("call_id", sa.String(length=64), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["episode_id"], ["episodes.id"], name="fk_tool_results_episode_id_episodes", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("episode_id", "call_id", name="pk_tool_results"),
    )


def downgrade() -> None:
    """Without them."""
    op.drop_table("tool_results")
    op.drop_table("conversations")
