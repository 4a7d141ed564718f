"""PostgreSQL: the transactions and checks that give the ledger the same promises as one SQLite file.

The driver is in autocommit mode and transactions begin by our own statement: with the writers' lock in the same message that is
one trip to the server instead of three.

Writers take one advisory lock when they begin, so they follow each other as in SQLite, and every rule that a repository
checks before it writes holds here for the same reason. Several gateways take turns: a transaction is short, and the service
puts many requests into one (`service.books`). Readers never wait; each sees one snapshot.
"""

from __future__ import annotations

import math
import time
from typing import Any

from psycopg import Connection as PsycopgConnection
from psycopg import Error as PsycopgError
from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

from bank.ledger.errors import LedgerUnusable

WRITER_LOCK = 0x52617463686574
"""Key of the advisory lock: "Ratchet" in hexadecimal. Advisory locks belong to one database."""
LOCK_TIMEOUT_MS = 30_000
IDLE_TIMEOUT_MS = 60_000
"""A process that hangs inside a transaction loses it, and with it the writers' lock."""
CONNECT_SECONDS = 10
POOL_SIZE = 8
WRITES = "ratchet_writes"
LOCK_SECONDS = "ratchet_lock_seconds"
IDLE_SINCE = "ratchet_idle_since"
TESTED_AFTER_SECONDS = 1.0


def connect(address: URL, pool_size: int = POOL_SIZE) -> Engine:
    """An engine for reading transactions with at most `pool_size` connections. Raises `LedgerUnusable` when the server can't hold a ledger."""
    settings = f"-c lock_timeout={LOCK_TIMEOUT_MS} -c idle_in_transaction_session_timeout={IDLE_TIMEOUT_MS}"
    engine = create_engine(
        address.set(drivername="postgresql+psycopg"),
        pool_size=pool_size,
        max_overflow=0,
        connect_args={
            "autocommit": True,
            "options": settings,
            "connect_timeout": CONNECT_SECONDS,
            "client_encoding": "UTF8",
        },
    )
    event.listen(engine, "begin", _begin)
    event.listen(engine, "checkin", _note)
    event.listen(engine, "checkout", _test)
    return engine


def writing(engine: Engine, lock_seconds: float | None = None) -> Engine:
    """The same pool, for transactions that write; `lock_seconds` replaces the usual wait for other writers."""
    return engine.execution_options(**{WRITES: True, LOCK_SECONDS: lock_seconds})


def check(engine: Engine) -> None:
    """Raises `LedgerUnusable` for a standby, or a database that can't hold any text."""
    with engine.connect() as connection:
        standby, encoding, durable = connection.exec_driver_sql(
            "SELECT pg_is_in_recovery(), current_setting('server_encoding'), current_setting('synchronous_commit')"
        ).one()
    if standby:
        raise LedgerUnusable("this PostgreSQL server is a read-only standby; the ledger needs the primary")
    if encoding != "UTF8":
        raise LedgerUnusable(f"the database's encoding is {encoding}; the ledger needs UTF8")
    if durable == "off":
        raise LedgerUnusable("synchronous_commit is off: an acknowledged commit could be lost; the ledger needs it on")


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    if not options.get(WRITES):
        connection.exec_driver_sql("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return
    # READ COMMITTED: what is read after the lock was granted is what the writer before us committed
    statements = ["BEGIN ISOLATION LEVEL READ COMMITTED", f"SELECT pg_advisory_xact_lock({WRITER_LOCK})"]
    if options.get(LOCK_SECONDS) is not None:
        statements.insert(1, f"SET LOCAL lock_timeout = {int(options[LOCK_SECONDS] * 1000)}")
    connection.exec_driver_sql("; ".join(statements))


def _note(connection: DBAPIConnection | None, entry: ConnectionPoolEntry) -> None:
    del connection
    entry.info[IDLE_SINCE] = time.monotonic()


def _test(connection: PsycopgConnection[Any], entry: ConnectionPoolEntry, fairy: PoolProxiedConnection) -> None:
    """Ask a connection that lay idle whether it lives; asking each time would cost as much as a statement."""
    del fairy
    if time.monotonic() - entry.info.get(IDLE_SINCE, math.inf) < TESTED_AFTER_SECONDS:
        return
    try:
        connection.execute("SELECT 1")
    except PsycopgError as error:
        raise DisconnectionError("the server has closed this connection") from error
