from __future__ import annotations

from datetime import UTC, datetime, timedelta

from bank.ledger.ledger import Ledger
from bank.pulse import Pulse

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def beat(ledger: Ledger, queue: str, worker: str, seconds: float) -> Pulse:
    pulse = Pulse(queue, worker, NOW + timedelta(seconds=seconds))
    with ledger.write() as books:
        books.pulses.beat(pulse)
    return pulse


def test_the_last_task_of_a_queue_counts_whoever_took_it(ledger: Ledger) -> None:
    beat(ledger, "rounds", "a", 5)
    beat(ledger, "rounds", "b", 1)
    newest = beat(ledger, "rounds", "a", 9)
    relay = beat(ledger, "relay", "b", 2)
    with ledger.read() as books:
        assert set(books.pulses.latest()) == {newest, relay}
        assert {pulse.queue for pulse in books.pulses.of_worker("b")} == {"rounds", "relay"}


def test_a_worker_that_is_long_gone_is_forgotten(ledger: Ledger) -> None:
    beat(ledger, "rounds", "gone", 0)
    beat(ledger, "relay", "here", 100_000)
    with ledger.read() as books:
        assert [pulse.worker for pulse in books.pulses.latest()] == ["here"]
