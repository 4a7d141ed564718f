"""The bank's rows and their outbox marks."""

import pytest

from bank.episode import Split
from bank.ledger.errors import HeldOutRefused, NotFound
from bank.ledger.ledger import Ledger
from tests.bank.records import episode, experience, fill, later


def test_experiences_come_back_in_the_order_that_was_asked_for(ledger: Ledger):
    one, two, three = fill(ledger, 3)
    with ledger.read() as books:
        assert books.experiences.get_many(["exp_3", "exp_1", "exp_2"]) == (three, one, two)
        with pytest.raises(NotFound, match="exp_9"):
            books.experiences.get_many(["exp_1", "exp_9"])


def test_an_episode_leaves_one_experience_however_often_it_is_added(ledger: Ledger):
    fill(ledger, 1)
    with ledger.write() as books:
        assert books.experiences.add(experience(1, id="exp_other", trace="another")) is False
        assert books.experiences.count() == 1
        assert books.experiences.pending(10)[0].id == "exp_1"


def test_a_held_out_task_never_becomes_an_experience(ledger: Ledger):
    with ledger.write() as books:
        books.episodes.add(episode(1, split=Split.HELD_OUT))
    with pytest.raises(HeldOutRefused, match="desk/train/0001"), ledger.write() as books:
        books.experiences.add(experience(1))
    with ledger.read() as books:
        assert books.experiences.count() == 0


def test_the_split_of_the_stored_episode_decides_whatever_the_experience_says(ledger: Ledger):
    with ledger.write() as books:
        books.episodes.add(episode(1, split=Split.HELD_OUT))
    disguised = experience(1, suite="live", task_id="live/1")
    with pytest.raises(HeldOutRefused), ledger.write() as books:
        books.experiences.add(disguised)


def test_an_experience_without_its_episode_is_refused(ledger: Ledger):
    with pytest.raises(NotFound, match="no episode ep_1"), ledger.write() as books:
        books.experiences.add(experience(1))


def test_pending_means_neither_indexed_nor_withdrawn_and_is_oldest_first(ledger: Ledger):
    fill(ledger, 4)
    with ledger.write() as books:
        books.experiences.mark_indexed(["exp_2"], later(1))
        assert books.experiences.withdraw("ep_1", later(1))
        assert [one.id for one in books.experiences.pending(10)] == ["exp_3", "exp_4"]
        assert [one.id for one in books.experiences.pending(1)] == ["exp_3"]
        assert [one.id for one in books.experiences.indexed()] == ["exp_2"]
        assert (books.experiences.count(), books.experiences.indexed_count()) == (3, 1)


def test_a_withdrawn_experience_waits_for_its_removal_once(ledger: Ledger):
    fill(ledger, 2)
    with ledger.write() as books:
        books.experiences.mark_indexed(["exp_1", "exp_2"], later(1))
        assert books.experiences.withdraw("ep_1", later(2))
        assert not books.experiences.withdraw("ep_1", later(3))
        assert not books.experiences.withdraw("ep_9", later(3))
        assert books.experiences.withdrawn_unapplied(10) == ("exp_1",)
        books.experiences.mark_removed(["exp_1", "exp_2"], later(4))
        assert books.experiences.withdrawn_unapplied(10) == ()
        assert books.experiences.indexed_count() == 1


def test_one_that_is_indexed_after_its_withdrawal_is_removed_again(ledger: Ledger):
    fill(ledger, 1)
    with ledger.write() as books:
        books.experiences.withdraw("ep_1", later(1))
        books.experiences.mark_removed(["exp_1"], later(2))
        books.experiences.mark_indexed(["exp_1"], later(3))
        assert books.experiences.withdrawn_unapplied(10) == ("exp_1",)
        assert books.experiences.indexed() == ()


def test_long_lists_of_ids_are_no_problem(ledger: Ledger):
    fill(ledger, 3)
    ids = [f"exp_{number}" for number in (1, 2, 3)] * 400
    with ledger.write() as books:
        books.experiences.mark_indexed(ids, later(1))
        assert books.experiences.indexed_count() == 3
        assert len(books.experiences.get_many(ids)) == 1200
