"""Rounds: slots, claims, leases, fences, cancelling."""

import subprocess
import sys

import pytest

from bank.ledger.errors import InvalidRecord, NotFound, SlotTaken, StaleFence
from bank.ledger.ledger import Ledger
from bank.ledger.rounds import EXHAUSTED
from bank.round import RoundStatus, RoundStep
from tests.bank.records import NOW, later, round_

LEASE = 60.0
ATTEMPTS = 3
FENCED = {
    "renew": lambda rounds, fence: rounds.renew("rd_1", fence, later(600)),
    "record": lambda rounds, fence: rounds.record("rd_1", fence, phase="steps"),
    "add_step": lambda rounds, fence: rounds.add_step(RoundStep("rd_1", 0, 32, {"reward": 0.5}, NOW), fence),
    "finish": lambda rounds, fence: rounds.finish(
        "rd_1", fence, RoundStatus.COMPLETED, later(9), candidate="student-1"
    ),
}


def create(ledger: Ledger, *numbers: int) -> None:
    with ledger.write() as books:
        for number in numbers:
            books.rounds.create(round_(number, config={"steps": number}))


def claim(ledger: Ledger, seconds: float = 0.0):
    with ledger.write() as books:
        return books.rounds.claim(later(seconds), LEASE, ATTEMPTS)


def get(ledger: Ledger, number: int = 1):
    with ledger.read() as books:
        return books.rounds.get(f"rd_{number}")


def test_a_slot_has_one_round(ledger: Ledger):
    create(ledger, 1)
    with pytest.raises(SlotTaken, match="slot-1"), ledger.write() as books:
        books.rounds.create(round_(2, slot="slot-1"))
    with ledger.read() as books:
        assert books.rounds.latest(10) == (round_(1, config={"steps": 1}),)


def test_the_oldest_queued_round_is_claimed_and_then_it_is_taken(ledger: Ledger):
    create(ledger, 1, 2)
    first, second, third = claim(ledger), claim(ledger), claim(ledger)
    assert [(one.id, one.status, one.fence, one.attempts, one.lease_until) for one in (first, second)] == [
        ("rd_1", RoundStatus.RUNNING, 1, 1, later(LEASE)),
        ("rd_2", RoundStatus.RUNNING, 1, 1, later(LEASE)),
    ]
    assert third is None
    with ledger.read() as books:
        assert [one.id for one in books.rounds.latest(1)] == ["rd_2"]


CLAIM = """
import sys
from bank.ledger.ledger import Ledger
from tests.bank.records import NOW
sys.stdin.readline()
ledger = Ledger.open(sys.argv[1])
while True:
    with ledger.write() as books:
        mine = books.rounds.claim(NOW, 60, 3)
    if mine is None:
        break
    print(mine.id)
"""


def test_two_processes_never_claim_the_same_round(ledger: Ledger, url: str):
    create(ledger, *range(1, 21))
    workers = [
        subprocess.Popen([sys.executable, "-c", CLAIM, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    claimed = [one for worker in workers for one in worker.communicate("go\n", timeout=60)[0].split()]
    assert sorted(claimed) == sorted(f"rd_{number}" for number in range(1, 21))


def test_a_round_whose_lease_ran_out_is_claimed_again_under_a_new_fence(ledger: Ledger):
    create(ledger, 1)
    claim(ledger)
    assert claim(ledger, LEASE) is None
    again = claim(ledger, LEASE + 1)
    assert (again.id, again.fence, again.attempts) == ("rd_1", 2, 2)


def test_a_renewed_lease_is_not_taken_away(ledger: Ledger):
    create(ledger, 1)
    claim(ledger)
    with ledger.write() as books:
        books.rounds.renew("rd_1", 1, later(500))
    assert claim(ledger, 499) is None
    assert claim(ledger, 501) is not None


def test_a_round_that_keeps_dying_fails_after_its_last_attempt_and_the_next_one_runs(ledger: Ledger):
    create(ledger, 1, 2)
    for attempt in range(ATTEMPTS):
        assert claim(ledger, attempt * 100).id == "rd_1"
    assert claim(ledger, ATTEMPTS * 100).id == "rd_2"
    dead = get(ledger)
    assert (dead.status, dead.error, dead.finished_at) == (RoundStatus.FAILED, EXHAUSTED, later(ATTEMPTS * 100))
    with pytest.raises(StaleFence), ledger.write() as books:
        books.rounds.record("rd_1", dead.fence, phase="late")


@pytest.mark.parametrize("write", FENCED.values(), ids=FENCED.keys())
def test_every_write_needs_the_fence_of_the_last_claim(ledger: Ledger, write):
    create(ledger, 1)
    claim(ledger)
    claim(ledger, LEASE + 1)
    before = get(ledger)
    with pytest.raises(StaleFence, match="under fence 2, not 1"), ledger.write() as books:
        write(books.rounds, 1)
    with ledger.read() as books:
        assert (books.rounds.get("rd_1"), books.rounds.steps("rd_1")) == (before, ())
    with ledger.write() as books:
        write(books.rounds, 2)
    assert get(ledger) != before or write is FENCED["add_step"]


@pytest.mark.parametrize("write", FENCED.values(), ids=FENCED.keys())
def test_nothing_is_written_to_a_round_that_is_queued_over_or_unknown(ledger: Ledger, write):
    with pytest.raises(NotFound), ledger.write() as books:
        write(books.rounds, 0)
    create(ledger, 1)
    with pytest.raises(StaleFence, match="is queued"), ledger.write() as books:
        write(books.rounds, 0)
    claim(ledger)
    with ledger.write() as books:
        books.rounds.finish("rd_1", 1, RoundStatus.EMPTY, later(1))
    with pytest.raises(StaleFence, match="is empty"), ledger.write() as books:
        write(books.rounds, 1)


def test_a_finished_round_says_what_came_out_and_is_never_claimed_again(ledger: Ledger):
    create(ledger, 1)
    claim(ledger)
    with ledger.write() as books:
        books.rounds.record("rd_1", 1, phase="steps", snapshot={"ids": ["exp_1"], "digest": "d"}, parent="student-0")
        books.rounds.record("rd_1", 1)
        books.rounds.finish("rd_1", 1, RoundStatus.COMPLETED, later(9), candidate="student-1")
    done = get(ledger)
    assert (done.phase, done.snapshot, done.parent) == ("steps", {"ids": ["exp_1"], "digest": "d"}, "student-0")
    assert (done.status, done.candidate, done.finished_at) == (RoundStatus.COMPLETED, "student-1", later(9))
    assert claim(ledger, 10_000) is None


def test_a_step_that_is_measured_again_replaces_its_row(ledger: Ledger):
    create(ledger, 1)
    claim(ledger)
    steps = [RoundStep("rd_1", step, 32 * step, {"reward": step / 10, "β": 1.0}, later(step)) for step in (1, 0, 2)]
    with ledger.write() as books:
        for step in steps:
            books.rounds.add_step(step, 1)
        redone = RoundStep("rd_1", 1, 32, {"reward": 0.7}, later(5))
        books.rounds.add_step(redone, 1)
        assert books.rounds.steps("rd_1") == (steps[1], redone, steps[2])


def test_a_metric_that_is_no_number_is_refused_by_name(ledger: Ledger):
    create(ledger, 1)
    claim(ledger)
    with pytest.raises(InvalidRecord, match=r"value\.loss is nan"), ledger.write() as books:
        books.rounds.add_step(RoundStep("rd_1", 0, 0, {"loss": float("nan")}, NOW), 1)


def cancel(ledger: Ledger):
    with ledger.write() as books:
        return books.rounds.request_cancel("rd_1", later(5))


def test_a_queued_round_is_cancelled_at_once(ledger: Ledger):
    create(ledger, 1)
    assert (cancel(ledger).status, cancel(ledger).finished_at) == (RoundStatus.CANCELLED, later(5))
    assert claim(ledger) is None


def test_a_running_round_is_asked_to_stop_and_its_worker_ends_it(ledger: Ledger):
    create(ledger, 1)
    claim(ledger)
    with ledger.write() as books:
        assert not books.rounds.is_cancelling("rd_1")
    assert cancel(ledger).status is RoundStatus.CANCELLING
    with ledger.write() as books:
        assert books.rounds.is_cancelling("rd_1")
        books.rounds.renew("rd_1", 1, later(100))
        books.rounds.finish("rd_1", 1, RoundStatus.CANCELLED, later(6))
    assert cancel(ledger).finished_at == later(6)


def test_a_round_whose_worker_died_while_cancelling_is_cancelled_and_not_run_again(ledger: Ledger):
    create(ledger, 1, 2)
    claim(ledger)
    cancel(ledger)
    assert claim(ledger, LEASE + 1).id == "rd_2"
    assert (get(ledger).status, get(ledger).attempts) == (RoundStatus.CANCELLED, 1)


def test_unknown_rounds_are_named(ledger: Ledger):
    assert get(ledger, 9) is None
    with pytest.raises(NotFound), ledger.write() as books:
        books.rounds.request_cancel("rd_9")
    with pytest.raises(NotFound), ledger.read() as books:
        books.rounds.is_cancelling("rd_9")


def test_the_last_attempts_error_is_in_the_end_of_a_round_that_is_given_up(ledger: Ledger):
    create(ledger, 1)
    claimed = claim(ledger)
    with ledger.write() as books:
        books.rounds.give_back(claimed.id, claimed.fence, later(10), error="out of memory")
        assert books.rounds.give_up(later(11), 2) == ()
        (ended,) = books.rounds.give_up(later(11), 1)
        assert books.rounds.give_up(later(11), 1) == ()
    assert (ended.status, ended.error) == (RoundStatus.FAILED, f"{EXHAUSTED}: out of memory")


def test_an_attempt_that_was_asked_to_end_does_not_count(ledger: Ledger):
    create(ledger, 1)
    for number in range(2 * ATTEMPTS):
        claimed = claim(ledger, number + 0.5)
        with ledger.write() as books:
            books.rounds.give_back(claimed.id, claimed.fence, later(number), counted=False)
    assert get(ledger).attempts == 0


def test_only_the_holder_gives_a_round_back(ledger: Ledger):
    create(ledger, 1)
    late = claim(ledger)
    claim(ledger, LEASE + 1)
    with pytest.raises(StaleFence), ledger.write() as books:
        books.rounds.give_back(late.id, late.fence, later(0))
