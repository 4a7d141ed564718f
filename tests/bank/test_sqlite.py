"""What only the SQLite ledger has: a lock file, pragmas, a file."""

from pathlib import Path

import pytest
from filelock import FileLock

from bank.ledger.errors import LedgerUnusable
from bank.ledger.ledger import Ledger


def test_opening_waits_its_turn_behind_whoever_migrates(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'ledger.sqlite3'}"
    with FileLock(tmp_path / "ledger.sqlite3.lock"):
        with pytest.raises(LedgerUnusable, match=r"another process has held .*ledger\.sqlite3\.lock"):
            Ledger.open(url, lock_seconds=0.05)
        assert not (tmp_path / "ledger.sqlite3").exists()
    Ledger.open(url, lock_seconds=0.05).close()


def test_writes_ahead_with_full_durability_and_foreign_keys(tmp_path: Path):
    ledger = Ledger.open(f"sqlite:///{tmp_path / 'ledger.sqlite3'}")
    with ledger._writer.connect() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"pragma {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 30_000}
    ledger.close()


@pytest.mark.parametrize("address", ["sqlite://", "sqlite:///:memory:", "sqlite:///"])
def test_a_database_in_memory_is_refused(address: str):
    with pytest.raises(LedgerUnusable, match="needs a file"):
        Ledger.open(address)
