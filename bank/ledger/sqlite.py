"""SQLite: the pragmas, transactions and locks that make one file safe for many threads and processes.

Write-ahead logging lets readers go on while one writer works. A writer asks for the write lock when it begins: a
transaction that reads first and upgrades later would fail with "database is locked" whatever the timeout, because
its view is stale by then. `synchronous` stays FULL, so a commit that was acknowledged survives a power cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection as SqliteConnection

from filelock import FileLock, Timeout
from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.pool import ConnectionPoolEntry

from bank.ledger.errors import LedgerUnusable

BUSY_TIMEOUT_MS = 30_000
POOL_SIZE = 8
POOL_OVERFLOW = 56
"""Writers wait for each other in SQLite, not for a connection."""
BEGIN = "ratchet_begin"


def connect(address: URL) -> Engine:
    """An engine whose connections are set up as above. Raises `LedgerUnusable` for a database in memory."""
    path = _file(address)
    path.parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(address, pool_size=POOL_SIZE, max_overflow=POOL_OVERFLOW)
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def writing(engine: Engine) -> Engine:
    """The same engine and pool, for transactions that write."""
    return engine.execution_options(**{BEGIN: "BEGIN IMMEDIATE"})


@contextmanager
def alone(address: URL, seconds: float) -> Iterator[None]:
    """Hold the lock file next to the database, so that one process at a time creates and migrates it.

    A file lock and not a transaction: switching an empty file to write-ahead logging happens outside of any, and about
    one time in 240 it fails with "database is locked" between six processes, whatever the busy timeout. Raises
    `LedgerUnusable` when the lock is not to be had in `seconds`.
    """
    path = _file(address)
    lock = FileLock(path.with_name(path.name + ".lock"), timeout=seconds)
    try:
        lock.acquire()
    except Timeout as error:
        raise LedgerUnusable(f"another process has held {lock.lock_file} for {seconds:.0f} s") from error
    try:
        yield
    finally:
        lock.release()


def _file(address: URL) -> Path:
    if address.database in (None, "", ":memory:"):
        raise LedgerUnusable("the ledger needs a file: a database in memory is lost with its connection")
    return Path(str(address.database))


def _prepare(connection: SqliteConnection, entry: ConnectionPoolEntry) -> None:
    del entry
    connection.isolation_level = None  # the driver must not begin transactions by itself
    connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        raise LedgerUnusable(f"SQLite stays in journal mode {mode!r}; the ledger needs a disk that can do 'wal'")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get(BEGIN, "BEGIN"))
