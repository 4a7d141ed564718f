"""Looks at a ledger without changing it (opening it through `bank.ledger` would migrate it)."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import URL, make_url
from sqlalchemy.exc import SQLAlchemyError

from bank.ledger import postgres
from bank.ledger.errors import LedgerUnusable
from service.diagnosis.finding import Finding, fail, ok, warn

CHECK = "ledger"


def ledger_finding(url: str) -> Finding:
    """Present, readable, whole, and of the schema that this program writes."""
    address = make_url(url)
    if address.get_backend_name() == "postgresql":
        return _asked(address)
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
    return _of_schema(str(path), revision, episodes)


def _asked(address: URL) -> Finding:
    name = address.render_as_string()
    engine = postgres.connect(address)
    try:
        postgres.check(engine)
        with engine.connect() as connection:
            if connection.exec_driver_sql("SELECT to_regclass('alembic_version')").scalar_one() is None:
                return ok(CHECK, f"{name} is empty; ratchet up creates the tables")
            revision = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one()
            episodes = connection.exec_driver_sql("SELECT count(*) FROM episodes").scalar_one()
    except (SQLAlchemyError, LedgerUnusable) as error:
        return fail(CHECK, f"{name}: {error}", "start the server, or correct RATCHET_LEDGER_URL")
    finally:
        engine.dispose()
    return _of_schema(name, revision, episodes)


def _of_schema(name: str, revision: str, episodes: int) -> Finding:
    newest = _newest_revision()
    if revision != newest:
        return warn(
            CHECK, f"schema {revision}, this program writes {newest}", "ratchet up migrates it; back it up first"
        )
    return ok(CHECK, f"{name}, schema {revision}, {episodes} episodes")


def _newest_revision() -> str | None:
    config = Config()
    config.set_main_option("script_location", "bank:migrations")
    config.set_main_option("path_separator", "os")
    return ScriptDirectory.from_config(config).get_current_head()
