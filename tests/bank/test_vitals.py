from __future__ import annotations

from datetime import UTC, datetime, timedelta

from bank.ledger.ledger import Ledger
from bank.pulse import Pulse
from bank.round import Round, RoundStatus, RoundStep
from tests.bank.records import fill

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_an_empty_ledger_has_nothing_to_tell(ledger: Ledger) -> None:
    with ledger.read() as books:
        vitals = books.vitals.read()
    assert (vitals.outbox, vitals.outbox_since, vitals.rounds, vitals.running) == (0, None, {}, ())


def test_everything_is_counted(ledger: Ledger) -> None:
    fill(ledger, 3)
    with ledger.write() as books:
        oldest = min(each.created_at for each in books.experiences.pending(10))
        books.experiences.mark_indexed(["exp_2"], NOW)
        for number in (1, 2):
            books.rounds.create(Round(f"rd_{number}", f"slot {number}", RoundStatus.QUEUED, NOW))
        held = books.rounds.claim(NOW, 60.0, 3)
        for step in (1, 2):
            books.rounds.add_step(RoundStep(held.id, step, 4, {"eta_seconds": 10.0 / step}, NOW), held.fence)
        books.pulses.beat(Pulse("relay", "here", NOW))
        books.audit.add("test", "deployment.promote", "base", {}, NOW)
        vitals = books.vitals.read()
    assert (vitals.outbox, vitals.outbox_since) == (2, oldest)
    assert vitals.rounds == {"queued": 1, "running": 1}
    (running,) = vitals.running
    assert (running.id, running.steps, running.eta_seconds) == ("rd_1", 2, 5.0)
    assert running.lease_until == NOW + timedelta(seconds=60)
    assert [pulse.worker for pulse in vitals.pulses] == ["here"]
    assert vitals.changes == {"deployment.promote": 1}


def test_what_was_withdrawn_waits_since_then(ledger: Ledger) -> None:
    fill(ledger, 1)
    with ledger.write() as books:
        (lived,) = books.experiences.pending(1)
        books.experiences.mark_indexed([lived.id], NOW)
        books.experiences.withdraw(lived.episode_id, NOW)
        vitals = books.vitals.read()
    assert (vitals.outbox, vitals.outbox_since) == (1, NOW)
