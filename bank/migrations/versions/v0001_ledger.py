"""The first schema: every table group of the ledger."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True)
FRACTION = sa.Float(precision=53)


def upgrade() -> None:
    """From nothing."""
    _episodes()
    _feedback()
    _experiences()
    _rounds()
    _checkpoints()
    _deployments()
    _audit()
    _keys()


def downgrade() -> None:
    """To nothing."""
    for table in (
        "api_keys",
        "audit",
        "deployments",
        "checkpoints",
        "round_steps",
        "rounds",
        "experiences",
        "feedback",
        "turns",
        "episodes",
    ):
        op.drop_table(table)


def _episodes() -> None:
    op.create_table(
        "episodes",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("suite", sa.Text(), nullable=False),
        sa.Column("split", sa.String(length=32), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=128), nullable=False),
        sa.Column("opening", sa.JSON(), nullable=False),
        sa.Column("stop_reason", sa.String(length=32), nullable=False),
        sa.Column("reward", FRACTION, nullable=True),
        sa.Column("fault", sa.Text(), nullable=True),
        sa.Column("owner", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("number", name="pk_episodes"),
        sa.UniqueConstraint("id", name="uq_episodes_id"),
    )
    op.create_index("ix_episodes_created_at_number", "episodes", ["created_at", "number"])
    op.create_index("ix_episodes_policy", "episodes", ["policy"])
    op.create_table(
        "turns",
        sa.Column("episode_id", sa.String(length=64), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("prompt_ids", sa.LargeBinary(), nullable=False),
        sa.Column("sampled_ids", sa.LargeBinary(), nullable=False),
        sa.Column("logprobs", sa.LargeBinary(), nullable=False),
        sa.Column("reply", sa.JSON(), nullable=False),
        sa.Column("observations", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["episode_id"], ["episodes.id"], name="fk_turns_episode_id_episodes", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("episode_id", "position", name="pk_turns"),
    )


def _feedback() -> None:
    op.create_table(
        "feedback",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("episode_id", sa.String(length=64), nullable=False),
        sa.Column("value", FRACTION, nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("rater", sa.String(length=64), nullable=False),
        sa.Column("trusted", sa.Boolean(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("retracted_at", MOMENT, nullable=True),
        sa.ForeignKeyConstraint(
            ["episode_id"], ["episodes.id"], name="fk_feedback_episode_id_episodes", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("number", name="pk_feedback"),
        sa.UniqueConstraint("id", name="uq_feedback_id"),
        sa.UniqueConstraint("rater", "idempotency_key", name="uq_feedback_rater_idempotency_key"),
    )
    op.create_index("ix_feedback_episode_id", "feedback", ["episode_id"])


def _experiences() -> None:
    op.create_table(
        "experiences",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("episode_id", sa.String(length=64), nullable=False),
        sa.Column("suite", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("trace", sa.Text(), nullable=False),
        sa.Column("reward", FRACTION, nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("indexed_at", MOMENT, nullable=True),
        sa.Column("withdrawn_at", MOMENT, nullable=True),
        sa.Column("removed_at", MOMENT, nullable=True),
        sa.ForeignKeyConstraint(["episode_id"], ["episodes.id"], name="fk_experiences_episode_id_episodes"),
        sa.PrimaryKeyConstraint("number", name="pk_experiences"),
        sa.UniqueConstraint("episode_id", name="uq_experiences_episode_id"),
        sa.UniqueConstraint("id", name="uq_experiences_id"),
    )
    op.create_index("ix_experiences_indexed_at_withdrawn_at", "experiences", ["indexed_at", "withdrawn_at"])
    op.create_index("ix_experiences_withdrawn_at_removed_at", "experiences", ["withdrawn_at", "removed_at"])


def _rounds() -> None:
    op.create_table(
        "rounds",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("slot", sa.String(length=128), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("parent", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("lease_until", MOMENT, nullable=True),
        sa.Column("snapshot", sa.JSON(), nullable=False),
        sa.Column("candidate", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("finished_at", MOMENT, nullable=True),
        sa.PrimaryKeyConstraint("number", name="pk_rounds"),
        sa.UniqueConstraint("id", name="uq_rounds_id"),
        sa.UniqueConstraint("slot", name="uq_rounds_slot"),
    )
    op.create_index("ix_rounds_status_number", "rounds", ["status", "number"])
    op.create_table(
        "round_steps",
        sa.Column("round_id", sa.String(length=64), nullable=False),
        sa.Column("step", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("rollouts", sa.Integer(), nullable=False),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["round_id"], ["rounds.id"], name="fk_round_steps_round_id_rounds", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("round_id", "step", name="pk_round_steps"),
    )


def _checkpoints() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("digest", sa.String(length=128), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("round_id", sa.String(length=64), nullable=True),
        sa.Column("parent", sa.String(length=128), nullable=True),
        sa.Column("gate", sa.JSON(), nullable=True),
        sa.Column("lineage", sa.JSON(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["round_id"], ["rounds.id"], name="fk_checkpoints_round_id_rounds"),
        sa.PrimaryKeyConstraint("number", name="pk_checkpoints"),
        sa.UniqueConstraint("name", name="uq_checkpoints_name"),
        sa.UniqueConstraint("round_id", name="uq_checkpoints_round_id"),
    )
    op.create_index("ix_checkpoints_status", "checkpoints", ["status"])


def _deployments() -> None:
    op.create_table(
        "deployments",
        sa.Column("generation", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("current", sa.String(length=128), nullable=False),
        sa.Column("previous", sa.String(length=128), nullable=True),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("changed_at", MOMENT, nullable=False),
        sa.ForeignKeyConstraint(["current"], ["checkpoints.name"], name="fk_deployments_current_checkpoints"),
        sa.PrimaryKeyConstraint("generation", name="pk_deployments"),
    )


def _audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", NUMBER, autoincrement=True, nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    )


def _keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=32), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("revoked_at", MOMENT, nullable=True),
        sa.PrimaryKeyConstraint("number", name="pk_api_keys"),
        sa.UniqueConstraint("hash", name="uq_api_keys_hash"),
        sa.UniqueConstraint("id", name="uq_api_keys_id"),
    )
