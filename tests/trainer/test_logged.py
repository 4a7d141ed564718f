from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bank.episode import Episode, Split, StopReason, Turn
from bank.feedback import Feedback
from bank.ledger.ledger import Ledger
from bank.message import Message, Role
from trainer.logged import again, draw, served_by

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def episode(number, **changes):
    turn = Turn((1, 2), (5, 6), (-0.1, -0.2), Message(Role.ASSISTANT, "done"), ())
    made = Episode(
        f"ep_{number}", NOW + timedelta(seconds=number), f"t{number % 3}", "desk", Split.TRAIN, "x", "student-1", "d1",
        (Message(Role.USER, "x"),), (turn,), StopReason.FINISHED, 0.5,
    )  # fmt: skip
    return replace(made, **changes)


def verdict(number, episode_id, value, *, trusted=True, retracted=False):
    return Feedback(
        f"fb_{number}", episode_id, value, "quality", "key", trusted, "", NOW, retracted_at=NOW if retracted else None
    )


@pytest.fixture
def ledger(tmp_path):
    with_episodes = Ledger.open(f"sqlite:///{tmp_path / 'ledger.sqlite3'}")
    yield with_episodes
    with_episodes.close()


def fill(ledger, episodes, verdicts=()):
    with ledger.write() as books:
        for one in episodes:
            books.episodes.add(one)
        for one in verdicts:
            books.feedback.add(one)


def test_only_judged_episodes_of_exactly_this_version_are_used(ledger):
    fill(
        ledger,
        [
            episode(1),
            episode(2, policy="student-2"),
            episode(3, digest="d2"),
            episode(4, split=Split.HELD_OUT),
            episode(5, suite="elsewhere"),
            episode(6, reward=None),
            episode(7, stop_reason=StopReason.FAULT, reward=None, fault="down"),
            episode(8, turns=()),
            episode(9),
        ],
    )
    assert [one.id for one in served_by(ledger, "student-1", "d1", "desk")] == ["ep_1", "ep_9"]


def test_a_live_run_has_the_reward_of_its_last_trusted_rater(ledger):
    live = [episode(n, split=Split.LIVE, suite="live", reward=None) for n in range(4)]
    verdicts = [
        verdict(0, "ep_0", 0.0),
        verdict(1, "ep_0", 1.0),
        verdict(2, "ep_1", 1.0, trusted=False),
        verdict(3, "ep_2", 1.0, retracted=True),
    ]
    fill(ledger, live, verdicts)
    assert [(one.id, one.reward) for one in served_by(ledger, "student-1", "d1", "desk")] == [("ep_0", 1.0)]
    assert [one.id for one in again(ledger, ["ep_3", "ep_0", "gone"])] == ["ep_0"]


def test_draws_take_everything_once_a_lap_and_keep_tasks_together():
    episodes = [episode(number) for number in range(9)]
    lap = [one for step in range(3) for one in draw(episodes, 3, step, seed=1)]
    assert sorted(one.id for one in lap) == sorted(one.id for one in episodes)
    assert all(len({one.task_id for one in draw(episodes, 3, step, seed=1)}) == 1 for step in range(6))
    assert draw(episodes, 3, 4, seed=1) == draw(episodes, 3, 4, seed=1)
    assert draw([], 3, 0, seed=1) == []


def test_more_than_there_is_comes_once():
    assert len(draw([episode(1), episode(2)], 8, 0, seed=0)) == 2
