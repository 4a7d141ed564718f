"""Places in conversations, episodes that go on, and whole tool results."""

from dataclasses import replace

import pytest

from bank.episode import StopReason, Turn
from bank.ledger.errors import NotFound, SlotTaken
from bank.message import Message, Role
from tests.bank.records import episode

MORE = Turn((1, 2), (3,), (-0.5,), Message(Role.ASSISTANT, "more"))


def begun(ledger, number=1):
    first = episode(number, turns=episode().turns[:1], stop_reason=StopReason.WAITING, reward=None)
    with ledger.write() as books:
        books.episodes.add(first)
    return first


def longer(first):
    answered = replace(
        first.turns[0], observations=(Message(Role.TOOL, "late", (), "call_1"), Message(Role.USER, "go"))
    )
    return replace(first, turns=(answered, MORE), stop_reason=StopReason.FINISHED)


def test_an_episode_goes_on_with_what_answered_its_last_turn(ledger):
    first = begun(ledger)
    with ledger.write() as books:
        books.episodes.extend(longer(first), 1)
    with ledger.read() as books:
        assert books.episodes.get(first.id) == longer(first)


def test_only_one_request_goes_on_from_a_turn(ledger):
    first = begun(ledger)
    with ledger.write() as books:
        books.episodes.extend(longer(first), 1)
    with pytest.raises(SlotTaken), ledger.write() as books:
        books.episodes.extend(replace(longer(first), stop_reason=StopReason.TOKEN_LIMIT), 1)
    with ledger.read() as books:
        assert books.episodes.get(first.id) == longer(first)


def test_an_episode_that_is_gone_does_not_go_on(ledger):
    with pytest.raises(NotFound), ledger.write() as books:
        books.episodes.extend(longer(episode()), 1)


def test_a_conversation_is_found_by_how_it_looks_now_and_only_by_its_owner(ledger):
    for number in (1, 2):
        begun(ledger, number)
    with ledger.write() as books:
        books.conversations.place("ep_1", "key_1", "a")
        books.conversations.place("ep_2", "key_1", "a")
        assert books.conversations.find("key_1", "a") == "ep_2"
        books.conversations.place("ep_2", "key_1", "b")
        assert books.conversations.find("key_1", "a") == "ep_1"
        assert books.conversations.find("key_2", "a") is None
        assert books.conversations.is_at("ep_2", "b")
        assert not books.conversations.is_at("ep_2", "a")


def test_whole_results_are_kept_by_call(ledger):
    begun(ledger)
    text = "漢" * 100_000
    with ledger.write() as books:
        books.conversations.keep_results("ep_1", {"call_1": text})
    with ledger.read() as books:
        assert books.conversations.result("ep_1", "call_1") == text
        assert books.conversations.result("ep_1", "call_2") is None
