"""Opening, migrating, and many writers at once."""

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from filelock import FileLock
from sqlalchemy import create_engine, text

from bank.ledger.errors import LedgerUnusable, SchemaTooNew, SlotTaken
from bank.ledger.ledger import Ledger
from bank.ledger.schema import METADATA
from tests.bank.records import NOW, episode

WRITERS = 50
EACH = 4
PROCESSES = 4
DATABASES = 3

OPEN_AND_WRITE = """
import sys
from bank.ledger.ledger import Ledger
from tests.bank.records import NOW
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    ledger = Ledger.open(sys.argv[1] + str(number))
    with ledger.write() as books:
        books.audit.add(sys.argv[2], "opened", str(number), {}, NOW)
    ledger.close()
"""


def processes(source: str, url: str, count: int) -> list[str]:
    """Run `count` processes that start working when everyone is ready; their standard errors."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", source, url, str(number), str(DATABASES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [process.communicate(timeout=120)[1] for process in started]


def test_several_processes_open_one_empty_database_at_once(url: str):
    assert processes(OPEN_AND_WRITE, url, PROCESSES) == [""] * PROCESSES
    for number in range(DATABASES):
        ledger = Ledger.open(url + str(number))
        with ledger.read() as books:
            lines = books.audit.latest(100)
        ledger.close()
        assert sorted(line.actor for line in lines) == [str(process) for process in range(PROCESSES)]


def test_opening_waits_its_turn_behind_whoever_migrates(url: str, tmp_path: Path):
    with FileLock(tmp_path / "ledger.sqlite3.lock"):
        with pytest.raises(LedgerUnusable, match=r"another process has held .*ledger\.sqlite3\.lock"):
            Ledger.open(url, lock_seconds=0.05)
        assert not (tmp_path / "ledger.sqlite3").exists()
    Ledger.open(url, lock_seconds=0.05).close()


def test_fifty_writers_at_once_never_meet_a_locked_database(ledger: Ledger):
    def read_then_write(writer: int) -> None:
        for turn in range(EACH):
            with ledger.write() as books:
                before = books.episodes.count()
                books.episodes.add(episode(writer * EACH + turn))
                assert books.episodes.count() == before + 1

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(read_then_write, range(WRITERS)))
    with ledger.read() as books:
        assert books.episodes.count() == WRITERS * EACH


def test_a_reader_keeps_its_view_while_a_writer_commits(ledger: Ledger):
    with ledger.read() as old:
        assert old.episodes.count() == 0
        with ledger.write() as books:
            books.episodes.add(episode())
        assert old.episodes.count() == 0
    with ledger.read() as books:
        assert books.episodes.count() == 1


def test_a_transaction_that_raises_leaves_nothing(ledger: Ledger):
    def twice() -> None:
        with ledger.write() as books:
            books.audit.add("somebody", "did", "something", {}, NOW)
            books.episodes.add(episode())
            books.episodes.add(episode())

    with pytest.raises(SlotTaken):
        twice()
    with ledger.read() as books:
        assert books.episodes.count() == 0
        assert books.audit.latest(10) == ()


def test_what_was_committed_is_there_after_opening_again(url: str):
    first = Ledger.open(url)
    with first.write() as books:
        books.episodes.add(episode())
    first.close()
    second = Ledger.open(url)
    with second.read() as books:
        assert books.episodes.get("ep_1") == episode()
    second.close()


@pytest.mark.usefixtures("ledger")
def test_migrations_build_exactly_the_tables_that_the_code_uses(url: str):
    engine = create_engine(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, METADATA) == []
    engine.dispose()


def test_the_newest_migration_can_be_undone(ledger: Ledger, url: str):
    ledger.close()
    config = Config()
    config.set_main_option("script_location", "bank:migrations")
    config.set_main_option("path_separator", "os")
    engine = create_engine(url)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
        tables = connection.execute(text("select name from sqlite_master where type = 'table'")).scalars().all()
    engine.dispose()
    assert tables == ["alembic_version"]


def test_a_database_written_by_a_newer_program_is_refused_and_left_alone(ledger: Ledger, url: str, tmp_path: Path):
    ledger.close()
    with sqlite3.connect(tmp_path / "ledger.sqlite3") as connection:
        connection.execute("update alembic_version set version_num = '9999'")
    connection.close()
    with pytest.raises(SchemaTooNew, match=r"schema 9999.*newer Ratchet wrote it"):
        Ledger.open(url)
    connection = sqlite3.connect(tmp_path / "ledger.sqlite3")
    assert connection.execute("select version_num from alembic_version").fetchone() == ("9999",)
    connection.close()


def test_writes_ahead_with_full_durability_and_foreign_keys(ledger: Ledger):
    with ledger._writer.connect() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"pragma {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 30_000}


@pytest.mark.parametrize("address", ["sqlite://", "sqlite:///:memory:", "sqlite:///"])
def test_a_database_in_memory_is_refused(address: str):
    with pytest.raises(LedgerUnusable, match="needs a file"):
        Ledger.open(address)


def test_another_kind_of_database_is_refused_without_showing_its_password():
    with pytest.raises(LedgerUnusable, match="sqlite:///") as refusal:
        Ledger.open("postgresql://ratchet:geheim@db/ratchet")
    assert "geheim" not in str(refusal.value)
