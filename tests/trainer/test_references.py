from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agents.environment import Task
from bank.embedding.hashing import HashingEmbedder
from bank.episode import Episode, Split, StopReason, Turn
from bank.index.memory import MemoryIndex
from bank.ledger.ledger import Ledger
from bank.message import Message, Role, ToolCall
from bank.relay import relay
from bank.remember import remember
from bank.snapshot import freeze
from trainer.references import Library, lived, sufficient

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class CountingEmbedder(HashingEmbedder):
    def __init__(self):
        super().__init__()
        self.batches = []

    def embed_queries(self, texts):
        self.batches.append(len(texts))
        return super().embed_queries(texts)


def episode(number, task, *, suite="desk", split=Split.TRAIN, sampled=(5, 6)):
    reply = Message(Role.ASSISTANT, "", (ToolCall("c", "refund", '{"order": "1"}'),))
    turn = Turn((1, 2), sampled, (-0.1,) * len(sampled), reply, (Message(Role.TOOL, "ok", tool_call_id="c"),))
    return Episode(
        f"ep_{number}", NOW, task, suite, split, f"please refund order {number}", "base", "d",
        (Message(Role.USER, "x"),), (turn,), StopReason.FINISHED, 1.0,
    )  # fmt: skip


@pytest.fixture
def bank(tmp_path):
    ledger, index = Ledger.open(f"sqlite:///{tmp_path / 'ledger.sqlite3'}"), MemoryIndex(HashingEmbedder().dimension)

    def fill(*episodes):
        with ledger.write() as books:
            for one in episodes:
                books.episodes.add(one)
                remember(books, one, 1.0, 1.0, NOW)
        relay(ledger, index, HashingEmbedder())
        return ledger, freeze(ledger, index)

    yield fill
    ledger.close()


def test_a_task_never_reads_its_own_trajectories(bank):
    _, snapshot = bank(episode(1, "a"), episode(2, "a"), episode(3, "b"))
    library = Library(snapshot, HashingEmbedder(), 3)
    assert [item.episode_id for item in library.references("a", "please refund order 1")] == ["ep_3"]
    assert {item.task_id for item in library.references("c", "please refund order 1")} == {"a", "b"}


def test_prepared_tasks_are_embedded_once_and_together(bank):
    _, snapshot = bank(episode(1, "a"), episode(2, "b"))
    embedder = CountingEmbedder()
    library = Library(snapshot, embedder, 1)
    tasks = [Task(f"t{n}", "desk", Split.TRAIN, f"text {n % 2}") for n in range(6)]
    library.prepare(tasks)
    library.prepare(tasks)
    library.references("t0", "text 0")
    assert embedder.batches == [2]


def test_a_bank_suffices_when_every_task_finds_enough_of_other_tasks(bank):
    ledger, snapshot = bank(episode(1, "a"), episode(2, "a"), episode(3, "b"), episode(4, "c"))
    assert sufficient(ledger, snapshot, least=4, references=2)
    assert not sufficient(ledger, snapshot, least=4, references=3)
    assert not sufficient(ledger, snapshot, least=5, references=2)


def test_the_cold_start_uses_this_suites_and_users_successes_with_tokens(bank):
    ledger, snapshot = bank(
        episode(1, "a"),
        episode(2, "b", suite="other"),
        episode(3, "c", suite="live", split=Split.LIVE),
        episode(4, "d", sampled=()),
    )
    assert len(snapshot) == 4
    assert [one.id for one in lived(ledger, snapshot, "desk")] == ["ep_1", "ep_3"]


def test_a_tasks_own_success_is_the_newest_of_another_run(bank):
    ledger, snapshot = bank(episode(1, "a"), episode(2, "a"), episode(3, "b"))
    library = Library(snapshot, HashingEmbedder(), 0, lived(ledger, snapshot, "desk"))
    found, recorded = library.own("a", "ep_9")
    assert (found.episode_id, recorded.id) == ("ep_2", "ep_2")
    assert library.own("a", "ep_2")[0].episode_id == "ep_1"
    assert library.own("b", "ep_3") == library.own("c", "ep_3") == (None, None)
    assert library.references("a", "please refund order 1") == ()
