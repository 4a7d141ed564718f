"""Verdicts: durable, idempotent, retractable."""

import pytest

from bank.ledger.errors import IdempotencyConflict, InvalidRecord, NotFound, SlotTaken
from bank.ledger.ledger import Ledger
from tests.bank.records import episode, feedback, later


@pytest.fixture
def lived(ledger: Ledger) -> Ledger:
    with ledger.write() as books:
        books.episodes.add(episode(1))
        books.episodes.add(episode(2))
    return ledger


def add(ledger: Ledger, verdict):
    with ledger.write() as books:
        return books.feedback.add(verdict)


def of_episode(ledger: Ledger):
    with ledger.read() as books:
        return books.feedback.of_episode("ep_1")


def test_verdicts_on_an_episode_come_back_in_order(lived: Ledger):
    first, second = feedback(value=0.25, comment="çà et là"), feedback(value=1.0, trusted=False)
    assert (add(lived, first), add(lived, second)) == (first, second)
    assert of_episode(lived) == (first, second)


def test_the_same_request_sent_twice_is_stored_once(lived: Ledger):
    first = add(lived, feedback(idempotency_key="k"))
    again = add(lived, feedback(idempotency_key="k", created_at=later(5)))
    assert again == first
    assert of_episode(lived) == (first,)


@pytest.mark.parametrize("changes", [{"value": 0.0}, {"episode_id": "ep_2"}, {"metric": "tone"}, {"comment": "no"}])
def test_the_same_key_with_another_body_is_a_conflict(lived: Ledger, changes):
    first = add(lived, feedback(idempotency_key="k"))
    with pytest.raises(IdempotencyConflict, match="another body"):
        add(lived, feedback(idempotency_key="k", **changes))
    assert of_episode(lived) == (first,)


def test_keys_of_two_raters_do_not_meet_and_no_key_never_does(lived: Ledger):
    add(lived, feedback(idempotency_key="k"))
    add(lived, feedback(idempotency_key="k", rater="key_2", value=0.0))
    add(lived, feedback())
    add(lived, feedback())
    assert len(of_episode(lived)) == 4


def test_a_retracted_verdict_stays_readable_with_its_first_time(lived: Ledger):
    verdict = add(lived, feedback())
    with lived.write() as books:
        books.feedback.retract(verdict.id, later(1))
        assert books.feedback.retract(verdict.id, later(9)).retracted_at == later(1)
    assert of_episode(lived)[0].retracted_at == later(1)


def test_unknown_episodes_and_unknown_verdicts_are_named(lived: Ledger):
    with pytest.raises(NotFound, match="no episode ep_9"):
        add(lived, feedback(episode_id="ep_9"))
    with pytest.raises(NotFound, match="no feedback fb_9"), lived.write() as books:
        books.feedback.retract("fb_9", later(1))
    with lived.read() as books:
        assert books.feedback.get("fb_9") is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1, 1.1, True, "0.5"])
def test_values_outside_the_scale_are_refused(lived: Ledger, value):
    with pytest.raises(InvalidRecord):
        add(lived, feedback(value=value))
    assert of_episode(lived) == ()


def test_an_id_is_used_once(lived: Ledger):
    add(lived, feedback(id="fb_1"))
    with pytest.raises(SlotTaken):
        add(lived, feedback(id="fb_1"))


def test_a_group_is_stored_as_if_each_came_alone(lived: Ledger):
    before = add(lived, feedback(idempotency_key="old"))
    group = [
        feedback(idempotency_key="old"),
        feedback(idempotency_key="new", value=1.0),
        feedback(idempotency_key="new", value=1.0, created_at=later(3)),
        feedback(idempotency_key="new", value=0.0),
        feedback(idempotency_key="new", rater="key_2", value=0.0),
        feedback(idempotency_key="old", rater="key_3", value=0.0),
        feedback(),
        feedback(episode_id="ep_2"),
    ]
    with lived.write() as books:
        outcomes = books.feedback.add_all(group)
    assert [outcome.value for outcome in outcomes] == [before, group[1], group[1], None, *group[4:]]
    assert isinstance(outcomes[3].error, IdempotencyConflict)
    assert of_episode(lived) == (before, group[1], *group[4:7])
    with lived.write() as books:
        assert books.feedback.add_all([]) == []


def test_a_group_with_an_unfit_verdict_is_not_stored(lived: Ledger):
    with pytest.raises(InvalidRecord), lived.write() as books:
        books.feedback.add_all([feedback(), feedback(comment="a\0b")])
    assert of_episode(lived) == ()
