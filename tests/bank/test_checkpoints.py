"""Versions of the student: registered once, one candidate per round."""

import pytest

from bank.checkpoint import CheckpointStatus
from bank.gate_report import GateReport, Verdict
from bank.ledger.errors import NotFound, SlotTaken
from bank.ledger.ledger import Ledger
from tests.bank.records import checkpoint, round_

REPORT = GateReport(Verdict.BETTER, 208, 0.5, 0.1, 0.7, 0.4, 0.4, 0.3, 0.5, 0.95, 1e-9, 90, 7, 0)


@pytest.fixture
def rounds(ledger: Ledger) -> Ledger:
    with ledger.write() as books:
        books.rounds.create(round_(1))
        books.rounds.create(round_(2))
    return ledger


def test_a_checkpoint_comes_back_with_its_lineage_and_its_gate_report(rounds: Ledger):
    one = checkpoint(round_id="rd_1", parent="base", gate=REPORT, lineage={"experiences": ["exp_1"], "seed": 3})
    with rounds.write() as books:
        books.checkpoints.add(checkpoint("base"))
        books.checkpoints.add(one)
    with rounds.read() as books:
        assert books.checkpoints.get("student-1") == one
        assert books.checkpoints.of_round("rd_1") == one
        assert books.checkpoints.of_round("rd_2") is None
        assert books.checkpoints.latest(10) == (one, checkpoint("base"))


def test_a_round_has_one_candidate(rounds: Ledger):
    with rounds.write() as books:
        books.checkpoints.add(checkpoint(round_id="rd_1"))
    with pytest.raises(SlotTaken, match="rd_1"), rounds.write() as books:
        books.checkpoints.add(checkpoint("student-2", round_id="rd_1"))


def test_registering_the_same_weights_again_changes_nothing_and_other_weights_are_refused(rounds: Ledger):
    with rounds.write() as books:
        books.checkpoints.add(checkpoint(round_id="rd_1"))
        books.checkpoints.set_status("student-1", CheckpointStatus.LIVE)
        books.checkpoints.add(checkpoint(round_id="rd_1"))
        assert books.checkpoints.get("student-1").status is CheckpointStatus.LIVE
    with pytest.raises(SlotTaken, match="other weights"), rounds.write() as books:
        books.checkpoints.add(checkpoint(round_id="rd_1", digest="another"))


def test_a_candidate_of_an_unknown_round_is_refused(rounds: Ledger):
    with pytest.raises(NotFound, match="rd_9"), rounds.write() as books:
        books.checkpoints.add(checkpoint(round_id="rd_9"))


def test_states_change_with_their_reason_and_are_looked_up(rounds: Ledger):
    with rounds.write() as books:
        for number in (1, 2, 3):
            books.checkpoints.add(checkpoint(f"student-{number}"))
        books.checkpoints.set_status("student-2", CheckpointStatus.REJECTED, "loss was nan")
        books.checkpoints.set_status("student-2", CheckpointStatus.REJECTED)
        books.checkpoints.set_gate("student-2", REPORT)
        (rejected,) = books.checkpoints.with_status(CheckpointStatus.REJECTED)
        assert (rejected.name, rejected.reason, rejected.gate) == ("student-2", "loss was nan", REPORT)
        waiting = books.checkpoints.with_status(CheckpointStatus.CANDIDATE)
        assert [one.name for one in waiting] == ["student-1", "student-3"]


def test_unknown_checkpoints_are_named(rounds: Ledger):
    with pytest.raises(NotFound, match="student-9"), rounds.write() as books:
        books.checkpoints.set_status("student-9", CheckpointStatus.LIVE)
    with rounds.read() as books:
        assert books.checkpoints.get("student-9") is None
