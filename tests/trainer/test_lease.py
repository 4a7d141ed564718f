from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from bank.ledger.errors import StaleFence
from bank.ledger.ledger import Ledger
from bank.round import Round, RoundStatus, RoundStep
from trainer.lease import Lease, RoundCancelled, WorkerStopping, utc_now

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def ledger(tmp_path):
    opened = Ledger.open(f"sqlite:///{tmp_path / 'ledger.sqlite3'}")
    with opened.write() as books:
        books.rounds.create(Round("rd", "slot", RoundStatus.QUEUED, NOW))
    yield opened
    opened.close()


def claim(ledger, seconds=60.0, now=None):
    with ledger.write() as books:
        return books.rounds.claim(now or utc_now(), seconds, 5)


def stored(ledger):
    with ledger.read() as books:
        return books.rounds.get("rd")


def test_a_held_round_is_not_claimed_twice(ledger):
    with Lease(ledger, claim(ledger), 60.0, lambda: False):
        assert claim(ledger) is None


def test_a_living_worker_keeps_its_lease(ledger):
    claimed = claim(ledger, seconds=0.01)
    with Lease(ledger, claimed, 1.0, lambda: False):
        while stored(ledger).lease_until == claimed.lease_until:
            threading.Event().wait(0.01)
    assert stored(ledger).lease_until > claimed.lease_until


def test_a_lost_round_refuses_every_write(ledger):
    late = Lease(ledger, claim(ledger, now=NOW), 60.0, lambda: False)
    with Lease(ledger, claim(ledger), 60.0, lambda: False) as held:
        writes = [
            late.check,
            late.renew,
            lambda: late.record(phase="training"),
            lambda: late.add_step(RoundStep("rd", 1, 4, {}, NOW)),
            lambda: late.finish(RoundStatus.COMPLETED),
        ]
        for write in writes:
            with pytest.raises(StaleFence):
                write()
        held.check()
    assert stored(ledger).status is RoundStatus.RUNNING


def test_the_renewing_threads_end_is_noticed(ledger):
    with Lease(ledger, claim(ledger), 0.05, lambda: False) as lease:
        with ledger.write() as books:
            books.rounds.renew("rd", lease.round.fence, NOW)
            books.rounds.claim(utc_now(), 60.0, 5)
        while not lease._renewing.done():
            threading.Event().wait(0.01)
        with pytest.raises(StaleFence):
            lease.check()


def test_cancelling_and_stopping_are_told_apart(ledger):
    stop = []
    with Lease(ledger, claim(ledger), 60.0, lambda: bool(stop)) as lease:
        lease.check()
        stop.append(True)
        with pytest.raises(WorkerStopping):
            lease.check()
        with ledger.write() as books:
            books.rounds.request_cancel("rd")
        with pytest.raises(RoundCancelled):
            lease.check()


def test_a_released_round_can_be_claimed_at_once(ledger):
    with Lease(ledger, claim(ledger), 60.0, lambda: False) as lease:
        lease.release()
    assert claim(ledger).attempts == 1


def test_a_failed_attempt_counts_and_is_tried_again_after_its_pause(ledger):
    with Lease(ledger, claim(ledger), 60.0, lambda: False) as lease:
        lease.fail_attempt("out of memory", pause=100.0)
    assert stored(ledger).error == "out of memory"
    assert claim(ledger) is None
    assert claim(ledger, now=utc_now() + timedelta(seconds=101)).attempts == 2
