"""The pointer moves by compare-and-set."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from bank.checkpoint import CheckpointStatus
from bank.deployment import Deployment
from bank.ledger.errors import NotFound, NotPromotable, StaleGeneration
from bank.ledger.ledger import Ledger
from tests.bank.records import checkpoint, later


@pytest.fixture
def versions(ledger: Ledger) -> Ledger:
    with ledger.write() as books:
        for name in ("base", "student-1", "student-2"):
            books.checkpoints.add(checkpoint(name))
    return ledger


def flip(ledger: Ledger, expected: int, to: str, seconds: float = 0.0) -> Deployment:
    with ledger.write() as books:
        return books.deployments.flip(expected, to, "key_1", "because", later(seconds))


def test_the_pointer_starts_nowhere_and_keeps_its_history(versions: Ledger):
    with versions.read() as books:
        assert books.deployments.current() is None
    flip(versions, 0, "base")
    flip(versions, 1, "student-1", 1)
    back = flip(versions, 2, "base", 2)
    assert back == Deployment(3, "base", "student-1", "key_1", "because", later(2))
    with versions.read() as books:
        assert books.deployments.current() == back
        assert [(one.generation, one.current, one.previous) for one in books.deployments.history(10)] == [
            (3, "base", "student-1"),
            (2, "student-1", "base"),
            (1, "base", None),
        ]


@pytest.mark.parametrize("seen", [0, 2, -1])
def test_whoever_saw_another_generation_is_refused(versions: Ledger, seen: int):
    first = flip(versions, 0, "base")
    with pytest.raises(StaleGeneration, match="at generation 1"):
        flip(versions, seen, "student-1")
    with versions.read() as books:
        assert books.deployments.history(10) == (first,)


def test_of_many_flips_from_one_generation_exactly_one_wins(versions: Ledger):
    flip(versions, 0, "base")

    def attempt(number: int) -> bool:
        try:
            flip(versions, 1, f"student-{1 + number % 2}")
        except StaleGeneration:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(8))) == 1


def test_only_a_known_version_that_was_not_rejected_can_answer_users(versions: Ledger):
    with pytest.raises(NotFound, match="student-9"):
        flip(versions, 0, "student-9")
    with versions.write() as books:
        books.checkpoints.set_status("student-1", CheckpointStatus.REJECTED, "non-finite")
    with pytest.raises(NotPromotable, match="student-1"):
        flip(versions, 0, "student-1")
    with versions.read() as books:
        assert books.deployments.current() is None
