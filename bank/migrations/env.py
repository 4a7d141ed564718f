"""Alembic's entry point: runs the revisions on the connection that the caller gives."""

from __future__ import annotations

from alembic import context

from bank.ledger.schema import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
