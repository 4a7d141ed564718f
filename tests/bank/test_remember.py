"""What becomes an experience."""

from dataclasses import replace

import pytest

from bank.episode import Split, StopReason
from bank.ledger.errors import SlotTaken
from bank.ledger.ledger import Ledger
from bank.remember import remember
from tests.bank.records import TURNS, episode, later


def live(ledger: Ledger, one, reward: float = 1.0, threshold: float = 1.0):
    with ledger.write() as books:
        books.episodes.add(one)
        return remember(books, one, reward, threshold, later(9))


def count(ledger: Ledger) -> int:
    with ledger.read() as books:
        return books.experiences.count()


def test_a_verified_success_becomes_a_pending_experience_with_its_compact_trace(ledger: Ledger):
    made = live(ledger, episode())
    assert (made.episode_id, made.task_id, made.suite, made.reward) == ("ep_1", "desk/train/0001", "desk", 1.0)
    assert made.document == "please refund order 17\nrefund(order=17) -> ok\ndone"
    with ledger.read() as books:
        assert books.experiences.pending(10) == (made,)


def test_a_live_request_is_remembered_at_the_value_its_rater_gave(ledger: Ledger):
    assert live(ledger, episode(split=Split.LIVE, reward=None), reward=0.8, threshold=0.75).reward == 0.8


@pytest.mark.parametrize(
    ("changes", "reward"),
    [
        ({}, 0.99),
        ({}, float("nan")),
        ({"split": Split.HELD_OUT}, 1.0),
        ({"turns": TURNS[1:]}, 1.0),
        ({"turns": ()}, 1.0),
        *(({"stop_reason": reason}, 1.0) for reason in StopReason if reason is not StopReason.FINISHED),
    ],
)
def test_nothing_else_is_remembered(ledger: Ledger, changes, reward):
    assert live(ledger, episode(**changes), reward) is None
    assert count(ledger) == 0


def test_an_episode_is_remembered_once_and_a_withdrawn_one_does_not_come_back(ledger: Ledger):
    one = episode()
    assert live(ledger, one) is not None
    with ledger.write() as books:
        assert remember(books, one, 1.0, 1.0, later(10)) is None
        books.experiences.withdraw(one.id, later(11))
        assert remember(books, replace(one), 1.0, 1.0, later(12)) is None
    assert count(ledger) == 0


def test_the_experience_shares_the_fate_of_its_transaction(ledger: Ledger):
    def remembered_and_then_refused() -> None:
        with ledger.write() as books:
            books.episodes.add(episode())
            assert remember(books, episode(), 1.0, 1.0, later(9)) is not None
            books.episodes.add(episode())

    with pytest.raises(SlotTaken):
        remembered_and_then_refused()
    assert count(ledger) == 0
