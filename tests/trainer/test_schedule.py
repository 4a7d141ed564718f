from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bank.ledger.ledger import Ledger
from bank.round import RoundStatus
from trainer.schedule import create_round, slot_at

TWO = datetime(2026, 11, 30, 2, 0, tzinfo=UTC)
NIGHTLY = "0 2 * * *"


@pytest.fixture
def ledger(tmp_path):
    opened = Ledger.open(f"sqlite:///{tmp_path / 'ledger.sqlite3'}")
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("now", "slot"),
    [
        (TWO, "2026-11-30T02:00"),
        (TWO - timedelta(milliseconds=300), "2026-11-30T02:00"),
        (TWO - timedelta(minutes=1), "2026-11-29T02:00"),
        (TWO + timedelta(hours=7), "2026-11-30T02:00"),
    ],
)
def test_the_slot_is_the_one_that_has_begun(now, slot):
    assert slot_at(NIGHTLY, now) == slot


def test_two_clocks_make_one_round(ledger):
    first = create_round(ledger, NIGHTLY, TWO)
    assert first.status is RoundStatus.QUEUED
    assert create_round(ledger, NIGHTLY, TWO + timedelta(seconds=20)) is None
    with ledger.read() as books:
        assert [row.slot for row in books.rounds.latest(10)] == ["2026-11-30T02:00"]


def test_the_next_night_has_its_own(ledger):
    create_round(ledger, NIGHTLY, TWO)
    assert create_round(ledger, NIGHTLY, TWO + timedelta(days=1)).slot == "2026-12-01T02:00"
