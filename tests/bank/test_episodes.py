"""Episodes come back exactly as they were lived."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bank.episode import Turn
from bank.ledger.errors import InvalidRecord, LedgerError, SlotTaken
from bank.ledger.ledger import Ledger
from bank.message import Message, Role, ToolCall
from tests.bank.records import EPISODE, NOW, TURNS, episode, later

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TOKEN = st.integers(0, 2**31 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def stored(ledger: Ledger, one):
    with ledger.write() as books:
        books.episodes.add(one)
    with ledger.read() as books:
        return books.episodes.get(one.id)


def test_an_episode_comes_back_equal(ledger: Ledger):
    one = episode(reward=None, fault="engine: timed out", owner="key_1", turns=())
    assert stored(ledger, one) == one
    assert stored(ledger, episode(2)) == episode(2)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sampled=st.lists(st.tuples(TOKEN, FINITE)), prompt=st.lists(TOKEN), content=TEXT, arguments=TEXT)
def test_tokens_log_probabilities_and_texts_come_back_bit_for_bit(ledger: Ledger, sampled, prompt, content, arguments):
    reply = Message(Role.ASSISTANT, content, (ToolCall("call_1", "refund", arguments),))
    turn = Turn(tuple(prompt), tuple(t for t, _ in sampled), tuple(p for _, p in sampled), reply)
    one = replace(EPISODE, id=f"ep_{hash(turn)}_{count(ledger)}", turns=(turn,))
    back = stored(ledger, one)
    assert back == one
    assert [p.hex() for p in back.turns[0].logprobs] == [p.hex() for p in turn.logprobs]


def count(ledger: Ledger) -> int:
    with ledger.read() as books:
        return books.episodes.count()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"task": "please\0refund"}, "NUL character at position 6"),
        ({"task": "please \ud800 refund"}, "lone surrogate at position 7"),
        ({"opening": (Message(Role.USER, "a\0b"),)}, r"value\[0\].content.*NUL"),
        ({"turns": (replace(TURNS[0], reply=Message(Role.ASSISTANT, "\udfff")),)}, "value.content.*surrogate"),
        ({"turns": (replace(TURNS[0], logprobs=(-0.1, float("nan"))),)}, "finite"),
        ({"turns": (replace(TURNS[0], logprobs=(-0.1,)),)}, "2 sampled tokens but 1 log-probabilities"),
        ({"turns": (replace(TURNS[0], prompt_ids=(-1,)),)}, "token ids"),
        ({"turns": (replace(TURNS[0], prompt_ids=(2**31,)),)}, "token ids"),
        ({"reward": float("nan")}, "between 0 and 1"),
        ({"reward": float("inf")}, "between 0 and 1"),
        ({"reward": 1.5}, "between 0 and 1"),
        ({"reward": True}, "between 0 and 1"),
        ({"reward": "0.5"}, "between 0 and 1"),
        ({"created_at": NOW.replace(tzinfo=None)}, "no time zone"),
    ],
)
def test_what_can_not_be_stored_exactly_is_refused_and_leaves_nothing(ledger: Ledger, changes, complaint):
    with pytest.raises(ValueError, match=complaint) as refusal, ledger.write() as books:
        books.episodes.add(episode(**changes))
    assert isinstance(refusal.value, InvalidRecord)
    assert isinstance(refusal.value, LedgerError)
    assert count(ledger) == 0


def test_a_lookup_by_an_id_that_no_row_can_have_is_refused_plainly(ledger: Ledger):
    with pytest.raises(InvalidRecord), ledger.read() as books:
        books.episodes.get("ep_\ud800")


def test_times_keep_the_moment_and_the_microsecond(ledger: Ledger):
    there = datetime(2026, 11, 30, 5, 30, 0, 7, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    back = stored(ledger, episode(created_at=there))
    assert back.created_at == there
    assert back.created_at.utcoffset() == timedelta(0)


def test_an_id_is_used_once(ledger: Ledger):
    stored(ledger, episode())
    with pytest.raises(SlotTaken), ledger.write() as books:
        books.episodes.add(episode(task="another"))


def test_pages_run_from_the_newest_to_the_oldest_without_gaps(ledger: Ledger):
    with ledger.write() as books:
        for number in (3, 1, 2, 5, 4):
            books.episodes.add(episode(number, created_at=later(number // 2)))
    with ledger.read() as books:
        every = books.episodes.latest(10)
        pages, last = [], None
        while page := books.episodes.latest(2, before=last):
            pages += page
            last = page[-1].id
    assert [one.id for one in every] == ["ep_4", "ep_5", "ep_2", "ep_3", "ep_1"]
    assert tuple(pages) == every
    assert every[0].turns == TURNS


def test_counts_and_rewards_by_version_leave_unverified_runs_out(ledger: Ledger):
    rewards = [("base", 0.0), ("base", 1.0), ("base", None), ("student-1", 0.5)]
    with ledger.write() as books:
        for number, (policy, reward) in enumerate(rewards):
            books.episodes.add(episode(number, policy=policy, reward=reward))
    with ledger.read() as books:
        assert books.episodes.reward_by_policy() == {"base": (2, 0.5), "student-1": (1, 0.5)}
        assert (books.episodes.count(), books.episodes.count("base"), books.episodes.count(min_reward=1.0)) == (4, 3, 1)
        assert books.episodes.get("ep_9") is None
