"""Looks at a SQLite ledger without changing it (opening it through `bank.ledger` would migrate it)."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import make_url

from service.diagnosis.finding import Finding, fail, ok, warn

CHECK = "ledger"


def ledger_finding(url: str) -> Finding:
    """Present, readable, whole, and of the schema that this program writes."""
    address = make_url(url)
    if address.get_backend_name() != "sqlite" or not address.database:
        return warn(CHECK, f"{address.render_as_string()} is not looked into from here", "ask its own tools")
    path = Path(address.database)
    if not path.is_file():
        return ok(CHECK, f"{path} does not exist yet; ratchet up creates it")
    try:
        return _looked_into(path)
    except sqlite3.DatabaseError as error:
        return fail(CHECK, f"{path}: {error}", "restore the file from a backup, or move it away to start anew")


def _looked_into(path: Path) -> Finding:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        state = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
        if state != "ok":
            return fail(CHECK, f"{path} is damaged: {state}", "restore it from a backup")
        (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        (episodes,) = connection.execute("SELECT count(*) FROM episodes").fetchone()
    finally:
        connection.close()
    newest = _newest_revision()
    if revision != newest:
        return warn(
            CHECK, f"schema {revision}, this program writes {newest}", "ratchet up migrates it; back it up first"
        )
    return ok(CHECK, f"{path}, schema {revision}, {episodes} episodes")


def _newest_revision() -> str | None:
    config = Config()
    config.set_main_option("script_location", "bank:migrations")
    config.set_main_option("path_separator", "os")
    return ScriptDirectory.from_config(config).get_current_head()
