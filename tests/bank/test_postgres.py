"""What only the PostgreSQL ledger has: advisory locks, read-only transactions, server checks."""

import threading
import time

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from bank.ledger import postgres
from bank.ledger.errors import LedgerUnusable
from bank.ledger.ledger import Ledger
from tests.bank.records import NOW
from tests.postgres_server import PostgresServer

LOCK = text(f"SELECT pg_advisory_lock({postgres.WRITER_LOCK})")


@pytest.fixture
def database(postgres_server: PostgresServer) -> str:
    return postgres_server.new_database()


def test_opening_waits_its_turn_behind_whoever_migrates(database: str):
    engine = create_engine(database)
    with engine.connect() as connection:
        connection.execute(LOCK)
        with pytest.raises(LedgerUnusable, match="lock timeout"):
            Ledger.open(database, lock_seconds=0.05)
        connection.execute(text("SELECT pg_advisory_unlock_all()"))
    engine.dispose()
    Ledger.open(database, lock_seconds=5).close()


def test_a_reader_can_not_write(database: str):
    ledger = Ledger.open(database)
    with pytest.raises(DBAPIError, match="read-only transaction"), ledger.read() as books:
        books.audit.add("somebody", "did", "something", {}, NOW)
    ledger.close()


def test_a_writer_reads_what_the_writer_before_it_committed(database: str):
    ledger = Ledger.open(database)
    entered, seen = threading.Event(), []

    def second() -> None:
        entered.set()
        with ledger.write() as books:
            seen.extend(books.audit.latest(10))

    with ledger.write() as books:
        waiting = threading.Thread(target=second)
        waiting.start()
        entered.wait()
        books.audit.add("first", "did", "something", {}, NOW)
    waiting.join()
    assert [line.actor for line in seen] == ["first"]
    ledger.close()


def test_a_database_that_can_not_hold_any_text_is_refused(postgres_server: PostgresServer):
    with pytest.raises(LedgerUnusable, match="encoding is SQL_ASCII"):
        Ledger.open(postgres_server.new_database(encoding="SQL_ASCII"))


def test_an_unreachable_server_is_a_refusal_that_shows_no_password():
    with pytest.raises(LedgerUnusable, match="connection") as refusal:
        Ledger.open("postgresql://ratchet:geheim@127.0.0.1:1/ratchet")
    assert "geheim" not in str(refusal.value)


def test_a_server_that_acknowledges_before_it_is_durable_is_refused(database: str):
    name = database.rsplit("/", maxsplit=1)[-1].split("?", maxsplit=1)[0]
    engine = create_engine(database)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"ALTER DATABASE {name} SET synchronous_commit = off"))
    engine.dispose()
    with pytest.raises(LedgerUnusable, match="synchronous_commit is off"):
        Ledger.open(database)


def test_no_more_connections_than_the_pool_has_and_all_come_back(database: str):
    ledger = Ledger.open(database, pool_size=2)
    mine = text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")

    def read() -> None:
        with ledger.read() as books:
            books.audit.latest(1)
            time.sleep(0.05)

    readers = [threading.Thread(target=read) for _ in range(10)]
    engine = create_engine(database)
    seen = []
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for reader in readers:
            reader.start()
        while any(reader.is_alive() for reader in readers):
            seen.append(connection.execute(mine).scalar_one())
        for reader in readers:
            reader.join()
        ledger.close()
    engine.dispose()
    assert max(seen) == 2


def test_connection_that_the_server_closed_while_it_lay_idle_is_replaced(database: str):
    ledger = Ledger.open(database)
    with ledger.read() as books:
        books.audit.latest(1)
    engine = create_engine(database)
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with engine.connect() as connection:
        assert connection.execute(text(f"SELECT count(pg_terminate_backend(pid)) {others}")).scalar_one() == 1
    engine.dispose()
    time.sleep(postgres.TESTED_AFTER_SECONDS)
    with ledger.read() as books:
        assert books.audit.latest(1) == ()
    ledger.close()
