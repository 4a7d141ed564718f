"""Bring a database to the newest schema, in one transaction, from inside the program."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine

from bank.ledger.errors import SchemaTooNew


def migrate(engine: Engine) -> None:
    """Run the missing revisions. Raises `SchemaTooNew` when the database is ahead of this program."""
    config = Config()
    config.set_main_option("script_location", "bank:migrations")
    config.set_main_option("path_separator", "os")
    with engine.begin() as connection:
        _refuse_newer(connection, ScriptDirectory.from_config(config))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _refuse_newer(connection: Connection, scripts: ScriptDirectory) -> None:
    known = {script.revision for script in scripts.walk_revisions()}
    unknown = set(MigrationContext.configure(connection).get_current_heads()) - known
    if unknown:
        raise SchemaTooNew(
            f"{connection.engine.url.render_as_string()} has schema {', '.join(sorted(unknown))}, which this version "
            "does not know: a newer Ratchet wrote it. Upgrade the program, or restore a backup of the ledger."
        )
