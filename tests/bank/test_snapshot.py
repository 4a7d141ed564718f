"""The bank as one round sees it."""

import json

import numpy as np
import pytest
from sqlalchemy import text

from bank.embedding.hashing import HashingEmbedder
from bank.episode import Split
from bank.index.memory import MemoryIndex
from bank.ledger.errors import HeldOutRefused, NotFound
from bank.ledger.ledger import Ledger
from bank.relay import relay
from bank.snapshot import IndexIncomplete, Snapshot, freeze
from tests.bank.records import episode, experience, fill, later


@pytest.fixture
def filled(ledger: Ledger, index: MemoryIndex, embedder: HashingEmbedder) -> Ledger:
    fill(ledger, 5)
    relay(ledger, index, embedder)
    return ledger


def hand_made() -> Snapshot:
    """Three experiences on the axes of the plane; the first two are of the same task."""
    stored = [
        experience(1, task_id="a"),
        experience(2, task_id="a"),
        experience(3, task_id="b"),
    ]
    return Snapshot(stored, np.array([[1, 0], [0.6, 0.8], [0, 1]], dtype=np.float32))


def test_the_best_matches_come_first_with_their_inner_products():
    found = hand_made().retrieve(np.array([0, 1], dtype=np.float32), 2, exclude_task="")
    assert [(one.experience.id, round(one.score, 6)) for one in found] == [("exp_3", 1.0), ("exp_2", 0.8)]


def test_a_task_never_retrieves_its_own_trajectory_however_well_it_matches():
    snapshot = hand_made()
    query = np.array([1, 0], dtype=np.float32)
    assert snapshot.retrieve(query, 3, exclude_task="")[0].experience.id == "exp_1"
    assert [one.experience.id for one in snapshot.retrieve(query, 3, exclude_task="a")] == ["exp_3"]


def test_own_tasks_stay_out_over_a_whole_bank(filled: Ledger, index: MemoryIndex, embedder: HashingEmbedder):
    snapshot = freeze(filled, index)
    for number in range(1, 6):
        query = embedder.embed_queries([f"please refund order {number}"])[0]
        own = f"desk/train/{number:04d}"
        assert snapshot.retrieve(query, 1, exclude_task="")[0].experience.task_id == own
        found = snapshot.retrieve(query, 5, exclude_task=own)
        assert len(found) == 4
        assert own not in {one.experience.task_id for one in found}


def test_equal_scores_keep_the_order_of_the_bank():
    stored = [experience(number, task_id=str(number)) for number in range(4)]
    snapshot = Snapshot(stored, np.tile(np.array([[1, 0]], dtype=np.float32), (4, 1)))
    found = snapshot.retrieve(np.array([1, 0], dtype=np.float32), 2, exclude_task="0")
    assert [one.experience.id for one in found] == ["exp_1", "exp_2"]


def test_an_empty_bank_gives_nothing(ledger: Ledger, index: MemoryIndex, embedder: HashingEmbedder):
    snapshot = freeze(ledger, index)
    assert (len(snapshot), snapshot.ids) == (0, ())
    assert snapshot.retrieve(embedder.embed_queries(["anything"])[0], 3, exclude_task="a") == ()


def test_what_is_pending_or_withdrawn_is_not_in_it(filled: Ledger, index: MemoryIndex):
    with filled.write() as books:
        books.episodes.add(episode(6))
        books.experiences.add(experience(6))
        books.experiences.withdraw("ep_2", later(9))
    assert freeze(filled, index).ids == ("exp_1", "exp_3", "exp_4", "exp_5")


def test_a_resumed_round_gets_exactly_the_experiences_it_started_with(
    filled: Ledger, index: MemoryIndex, embedder: HashingEmbedder
):
    started = freeze(filled, index)
    kept = json.loads(json.dumps({"ids": started.ids, "digest": started.digest}))
    with filled.write() as books:
        books.episodes.add(episode(6))
        books.experiences.add(experience(6))
    relay(filled, index, embedder)
    assert len(freeze(filled, index)) == 6
    assert freeze(filled, index).digest != started.digest
    resumed = freeze(filled, index, kept["ids"])
    assert (resumed.ids, resumed.digest) == (started.ids, started.digest)
    query = embedder.embed_queries(["please refund order 3"])[0]
    assert resumed.retrieve(query, 5, exclude_task="x") == started.retrieve(query, 5, exclude_task="x")


def test_given_ids_keep_their_order(filled: Ledger, index: MemoryIndex):
    assert freeze(filled, index, ["exp_4", "exp_1"]).ids == ("exp_4", "exp_1")


def test_the_digest_follows_the_content_and_the_order():
    one, two = experience(1), experience(2)
    vectors = np.eye(2, dtype=np.float32)
    digest = Snapshot([one, two], vectors).digest
    assert Snapshot([experience(1), experience(2)], vectors).digest == digest
    assert Snapshot([two, one], vectors).digest != digest
    assert Snapshot([one, experience(2, trace="another")], vectors).digest != digest


def test_a_resume_says_which_experience_is_gone(filled: Ledger, index: MemoryIndex, embedder: HashingEmbedder):
    ids = freeze(filled, index).ids
    with filled.write() as books:
        books.experiences.withdraw("ep_3", later(9))
    relay(filled, index, embedder)
    with pytest.raises(IndexIncomplete, match="lacks 1 of 5 experiences, first exp_3"):
        freeze(filled, index, ids)
    with pytest.raises(NotFound, match="exp_9"):
        freeze(filled, index, ["exp_9"])


@pytest.mark.parametrize("resume", [False, True])
def test_a_held_out_task_that_got_past_the_ledger_is_refused_here(filled: Ledger, index: MemoryIndex, resume: bool):
    ids = freeze(filled, index).ids
    with filled._writer.begin() as connection:
        connection.execute(
            text("update episodes set split = :split where id = 'ep_4'"), {"split": Split.HELD_OUT.value}
        )
    with pytest.raises(HeldOutRefused, match="exp_4"):
        freeze(filled, index, ids if resume else None)
